// Package wait is an environment whose step takes as long as its action says. It
// measures servers: a step that waits holds no thread and burns no time, so that
// thousands of sessions can wait in one process, and what is left is the server's own
// cost.
//
//	env.Reset(ctx)
//	res, err := env.Step(ctx, wait.Action{WaitS: 0.05})
//
// A wait is at most an hour long. There is no reward and no end; a step before the
// first reset is refused, as in all environments of this module. When the client
// leaves, or the server shuts down, the wait ends with the cause.
package wait

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/internal/episode"
	"github.com/openenv-go/openenv/envserver"
)

// longest is an hour: more is a mistake in the unit.
const longest = 3600

// Action is how long to wait.
type Action struct {
	WaitS float64 `json:"wait_s" jsonschema:"seconds to wait, from 0 to 3600"`
}

// Observation is how long the step has waited.
type Observation struct {
	WaitedS float64 `json:"waited_s" jsonschema:"seconds that the step has waited, by the server's clock"`
}

// Spec ties the types together, for both ends.
var Spec = openenv.Spec[Action, Observation, openenv.State]{Name: "wait"}

// Env is one session.
type Env struct {
	episode episode.Episode
	timer   *time.Timer // made by the first wait and used again, since steps do not overlap
}

// New builds an environment.
func New(context.Context) (*Env, error) { return new(Env), nil }

// ConcurrentSessions reports that environments share nothing.
func (*Env) ConcurrentSessions() bool { return true }

// Reset starts an episode. A seed changes nothing: nothing here is left to chance.
func (e *Env) Reset(_ context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error) {
	e.episode.Start(p)
	return openenv.StepResult[Observation]{}, nil
}

// Step waits. A step that ends early is not counted.
func (e *Env) Step(ctx context.Context, a Action) (openenv.StepResult[Observation], error) {
	if err := e.episode.Ready(); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	if math.IsNaN(a.WaitS) || a.WaitS < 0 || a.WaitS > longest {
		return openenv.StepResult[Observation]{}, fmt.Errorf("wait_s %v is not between 0 and %d seconds", a.WaitS, longest)
	}
	waited, err := e.wait(ctx, time.Duration(a.WaitS*float64(time.Second)))
	if err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	e.episode.Took(false)
	return openenv.StepResult[Observation]{Observation: Observation{WaitedS: waited.Seconds()}}, nil
}

func (e *Env) wait(ctx context.Context, d time.Duration) (waited time.Duration, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if d <= 0 {
		return 0, nil
	}
	start := time.Now()
	if e.timer == nil {
		e.timer = time.NewTimer(d)
	} else {
		e.timer.Reset(d)
	}
	select {
	case <-e.timer.C:
		return time.Since(start), nil
	case <-ctx.Done():
		e.timer.Stop()
		return 0, context.Cause(ctx)
	}
}

// State returns the episode's name and its number of steps.
func (e *Env) State(context.Context) (openenv.State, error) { return e.episode.State(), nil }
