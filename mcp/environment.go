package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/tooljson"
)

// reserved are the names that no tool may have (core/env_server/mcp_types.py,
// RESERVED_TOOL_NAMES): agents are to find no control of the episode among their tools.
var reserved = []string{"close", "reset", "state", "step"}

// ReservedNameError is a server with tools whose names belong to the protocol.
type ReservedNameError struct{ Names []string }

func (e *ReservedNameError) Error() string {
	return fmt.Sprintf("tools %q have reserved names; those are %q", e.Names, reserved)
}

// Environment is an OpenEnv environment whose actions are the tools of one [sdk.Server].
// A call taken as a step is answered with the tool's result, with the reward and end
// that [WithReward] gives; the same tool called over MCP has neither. It implements
// [envserver.Environment] of [Spec], [envserver.ToolProvider] and io.Closer. Calls on it
// never overlap, and the state counts the calls that were steps.
type Environment struct {
	set     *environmentSettings
	guard   *guard
	client  *sdk.ClientSession
	session *sdk.ServerSession
	state   openenv.State
}

// innerVersion is the protocol between an environment and its server: the last one with a
// handshake, whose results carry nothing but what handlers put there.
const innerVersion = "2025-11-25"

// connectLimit bounds the exchange of greetings with the environment's own server, in
// which only middleware can take time.
const connectLimit = 10 * time.Second

// NewEnvironment makes an environment of a server's tools. The server is the
// environment's from then on: it gets middleware, and one that has another session is
// refused. Make a server for each environment, in the function that builds it, and
// keep the episode's state in what its handlers close over. Tools may be added and
// removed at any time, by handlers, too.
//
// Tools with the protocol's own names are a [*ReservedNameError].
func NewEnvironment(server *sdk.Server, opts ...EnvironmentOption) (*Environment, error) {
	e, err := newEnvironment(server, opts)
	if err != nil {
		return nil, fmt.Errorf("mcp.NewEnvironment: %w", err)
	}
	return e, nil
}

func newEnvironment(server *sdk.Server, opts []EnvironmentOption) (*Environment, error) {
	if server == nil {
		return nil, errors.New("no server")
	}
	for range server.Sessions() {
		return nil, errors.New("server has a session already: each environment needs a server of its own")
	}
	set, err := newEnvironmentSettings(opts)
	if err != nil {
		return nil, err
	}
	e := &Environment{set: set, guard: newGuard(set.modes), state: openenv.State{EpisodeID: rand.Text()}}
	server.AddReceivingMiddleware(e.guard.middleware)
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	ours, theirs := newPipe()
	if e.session, err = server.Connect(ctx, theirs, nil); err != nil {
		return nil, err
	}
	e.guard.own = e.session
	client := sdk.NewClient(&sdk.Implementation{Name: "openenv-go", Version: "1"}, nil)
	if e.client, err = client.Connect(ctx, ours, &sdk.ClientSessionOptions{ProtocolVersion: innerVersion}); err != nil {
		_ = e.session.Close() // what went wrong is told already
		return nil, err
	}
	if err := e.checkNames(ctx); err != nil {
		_ = e.Close() // nothing has run
		return nil, err
	}
	return e, nil
}

// newPipe joins the environment to its server without a limit of its own: that of the
// SDK's transports ends the connection, and with it the session, for one large message.
// What a client sends is bounded before it comes here.
func newPipe() (ours, theirs *sdk.IOTransport) {
	const unlimited = -1
	a, b := net.Pipe()
	return &sdk.IOTransport{Reader: a, Writer: a, MaxLineLength: unlimited},
		&sdk.IOTransport{Reader: b, Writer: b, MaxLineLength: unlimited}
}

// checkNames refuses reserved names and options for tools that are not there.
func (e *Environment) checkNames(ctx context.Context) error {
	names := make(map[string]bool)
	var taken []string
	for tool, err := range e.client.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		names[tool.Name] = true
		if slices.Contains(reserved, tool.Name) {
			taken = append(taken, tool.Name)
		}
	}
	if taken != nil {
		return &ReservedNameError{Names: taken}
	}
	for _, name := range e.set.restricted {
		if !names[name] {
			return fmt.Errorf("WithToolsFor: there is no tool %q", name)
		}
	}
	return nil
}

// ConcurrentSessions reports that environments have servers of their own and share
// nothing that this package knows of.
func (*Environment) ConcurrentSessions() bool { return true }

// Close ends the server's session and waits for a handler that still runs, whose ctx
// has ended.
func (e *Environment) Close() error {
	err := e.client.Close()
	_ = e.session.Wait() // that the client ended it is no news
	return err
}

// Reset starts an episode: the state is new, and [WithReset] does the rest.
func (e *Environment) Reset(ctx context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error) {
	id := p.EpisodeID
	if id == "" {
		id = rand.Text()
	}
	e.state = openenv.State{EpisodeID: id}
	if e.set.reset == nil {
		return openenv.StepResult[Observation]{}, nil
	}
	return e.set.reset(ctx, p)
}

// State returns the episode's name and how many calls were steps of it.
func (e *Environment) State(context.Context) (openenv.State, error) { return e.state, nil }

// Step lists the tools or calls one. A call that fails is an observation that says so,
// and the episode goes on.
func (e *Environment) Step(ctx context.Context, a Action) (openenv.StepResult[Observation], error) {
	if a.Type == TypeListTools {
		return e.stepList(ctx)
	}
	arguments, err := json.Marshal(a.Arguments)
	if err != nil {
		return openenv.StepResult[Observation]{}, fmt.Errorf("arguments of tool %q: %w", a.ToolName, err)
	}
	if a.Arguments == nil {
		arguments = json.RawMessage("{}")
	}
	e.state.StepCount++
	call := StepCall{Tool: a.ToolName, Arguments: arguments}
	call.Result, err = e.CallTool(ctx, a.ToolName, arguments)
	if err == nil && call.Result.IsError {
		err = envserver.FailedTool(a.ToolName, call.Result)
	}
	if err != nil {
		known, ok := errors.AsType[*envserver.ToolError](err)
		if !ok {
			return openenv.StepResult[Observation]{}, err
		}
		call.Failure = &ToolFailure{Kind: Kind(known.Type), Message: known.Message}
	}
	return e.finish(ctx, call)
}

func (e *Environment) finish(ctx context.Context, call StepCall) (openenv.StepResult[Observation], error) {
	res := openenv.StepResult[Observation]{Observation: Observation{ToolName: call.Tool, Error: call.Failure}}
	if call.Failure == nil {
		text, err := tooljson.EncodeResult(call.Result)
		if err != nil {
			return res, fmt.Errorf("result of tool %q: %w", call.Tool, err)
		}
		res.Observation.Result = text
	}
	if e.set.reward != nil {
		res.Reward, res.Done = e.set.reward(ctx, call)
	}
	return res, nil
}

func (e *Environment) stepList(ctx context.Context) (openenv.StepResult[Observation], error) {
	var res openenv.StepResult[Observation]
	tools, err := e.ListTools(ctx)
	if err != nil {
		return res, err
	}
	res.Observation.Tools, err = tooljson.EncodeStepTools(tools)
	return res, err
}
