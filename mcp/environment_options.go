package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
)

// DefaultCallTimeout is how long a tool may take unless [WithCallTimeout] says
// otherwise (core/env_server/mcp_environment.py, MCP_TOOL_CALL_TIMEOUT).
const DefaultCallTimeout = 30 * time.Second

// EnvironmentOption configures an [Environment].
type EnvironmentOption interface {
	apply(s *environmentSettings) error
}

type environmentOption func(*environmentSettings) error

func (f environmentOption) apply(s *environmentSettings) error { return f(s) }

type environmentSettings struct {
	limit      time.Duration
	modes      map[string]openenv.Mode
	restricted []string // the names in modes
	reset      func(context.Context, envserver.ResetParams) (openenv.StepResult[Observation], error)
	reward     func(context.Context, StepCall) (*float64, bool)
}

func newEnvironmentSettings(opts []EnvironmentOption) (*environmentSettings, error) {
	s := &environmentSettings{limit: DefaultCallTimeout, modes: make(map[string]openenv.Mode)}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("nil option")
		}
		if err := o.apply(s); err != nil {
			return nil, err
		}
	}
	s.restricted = slices.Sorted(maps.Keys(s.modes))
	return s, nil
}

// WithCallTimeout bounds each call: its handler's ctx ends then, and the caller gets
// KindTimeout at once. The handler keeps the environment until it returns. Default
// [DefaultCallTimeout], 0 none.
func WithCallTimeout(d time.Duration) EnvironmentOption {
	return environmentOption(func(s *environmentSettings) error {
		if d < 0 {
			return fmt.Errorf("WithCallTimeout: negative duration %v", d)
		}
		s.limit = d
		return nil
	})
}

// WithToolsFor makes tools exist in one mode of the server only: in the other they are
// not listed, and a call of one is answered with KindToolNotFound and the mode. Other
// tools exist in both.
func WithToolsFor(mode openenv.Mode, names ...string) EnvironmentOption {
	return environmentOption(func(s *environmentSettings) error {
		parsed, err := openenv.ParseMode(string(mode))
		if err != nil {
			return fmt.Errorf("WithToolsFor: %w", err)
		}
		for _, name := range names {
			if had, ok := s.modes[name]; ok && had != parsed {
				return fmt.Errorf("WithToolsFor: tool %q is for both modes, which every tool is without the option", name)
			}
			s.modes[name] = parsed
		}
		return nil
	})
}

// WithReset runs at the start of each episode, and of a session of the standard
// protocol. What it returns is the answer; without it that is empty.
func WithReset(reset func(ctx context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error)) EnvironmentOption {
	return environmentOption(func(s *environmentSettings) error {
		if reset == nil {
			return errors.New("WithReset: nil function")
		}
		s.reset = reset
		return nil
	})
}

// StepCall is a tool call that was a step: Result when the tool succeeded, else
// Failure, beside which Result is what a tool said that ran and failed.
type StepCall struct {
	Tool      string
	Arguments json.RawMessage
	Result    *sdk.CallToolResult
	Failure   *ToolFailure
}

// WithReward gives calls that are steps a reward, nil for none, and says whether the
// episode is over. Without it they have neither.
func WithReward(reward func(ctx context.Context, call StepCall) (reward *float64, done bool)) EnvironmentOption {
	return environmentOption(func(s *environmentSettings) error {
		if reward == nil {
			return errors.New("WithReward: nil function")
		}
		s.reward = reward
		return nil
	})
}
