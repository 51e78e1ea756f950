package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// action and observation are tools as steps, as a server writes them.
type action struct {
	Type      string         `json:"type"`
	ToolName  string         `json:"tool_name,omitempty"`
	Arguments openenv.Object `json:"arguments,omitempty"`
}

type observation struct {
	Tools    json.RawMessage  `json:"tools,omitempty"`
	ToolName string           `json:"tool_name,omitempty"`
	Result   json.RawMessage  `json:"result,omitempty"`
	Error    *mcp.ToolFailure `json:"error,omitempty"`
}

// toolbox is an environment whose tools show what a bridge does.
type toolbox struct {
	*bench

	resets, calls int
}

// bench is what the environments of a server share with the test.
type bench struct {
	waiting chan struct{} // gets a value when the tool wait has begun
	gone    chan struct{} // and when it ended
	noTools bool
}

const toolList = `[
	{"name":"z-first","title":"First","description":"listed before a","input_schema":{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"additionalProperties":false},
	 "output_schema":{"type":"object","x-own":true},"annotations":{"readOnlyHint":true},"meta":{"own":{"n":1}},"icons":[{"src":"data:image/png;base64,AA=="}]},
	{"name":"a-second","description":"a schema that is no object's","input_schema":{"anyOf":[{"type":"object"}]}}]`

func (*toolbox) ConcurrentSessions() bool { return true }

func (e *toolbox) Reset(context.Context, envserver.ResetParams) (openenv.StepResult[observation], error) {
	e.resets++
	e.calls = 0
	return openenv.StepResult[observation]{}, nil
}

func (e *toolbox) State(context.Context) (openenv.State, error) {
	return openenv.State{EpisodeID: "e", StepCount: e.calls}, nil
}

func (e *toolbox) Step(ctx context.Context, a action) (openenv.StepResult[observation], error) {
	if a.Type == mcp.TypeListTools {
		tools := json.RawMessage(toolList)
		if e.noTools {
			tools = json.RawMessage(`[]`)
		}
		return openenv.StepResult[observation]{Observation: observation{Tools: tools}}, nil
	}
	e.calls++
	o := observation{ToolName: a.ToolName}
	switch a.ToolName {
	case "episode":
		o.Result = json.RawMessage(fmt.Sprintf(`{"resets":%d,"calls":%d}`, e.resets, e.calls))
	case "text":
		o.Result = json.RawMessage(`"plain"`)
	case "nothing":
	case "arguments":
		var err error
		if o.Result, err = json.Marshal(a.Arguments); err != nil {
			return openenv.StepResult[observation]{}, err
		}
	case "blocks":
		o.Result = json.RawMessage(`{"content":[{"type":"text","text":"seen"},{"type":"image","data":"AAEC","mime_type":"image/png"}],"structured_content":{"x":1},"meta":{"k":"v"},"data":{"x":1},"is_error":false}`)
	case "blocks failed":
		o.Result = json.RawMessage(`{"content":[{"type":"text","text":"no"},{"type":"text","text":"way"}],"structured_content":{"x":1},"is_error":true}`)
	case "fail":
		o.Error = &mcp.ToolFailure{Kind: mcp.KindExecution, Message: "it broke"}
	case "badly":
		o.Error = &mcp.ToolFailure{Kind: mcp.KindInvalidArgs, Message: "a is missing"}
	case "wait":
		e.waiting <- struct{}{}
		<-ctx.Done()
		e.gone <- struct{}{}
		return openenv.StepResult[observation]{}, ctx.Err()
	case "crash": // ends the session
		panic("crash")
	default:
		o.Error = &mcp.ToolFailure{Kind: mcp.KindToolNotFound, Message: "Unknown tool: " + a.ToolName}
	}
	return openenv.StepResult[observation]{Observation: o}, nil
}

// upstreamServer is a server of toolboxes.
type upstreamServer struct {
	*bench

	srv *envserver.Server
	url string
	opt openenv.Option
}

func startToolbox(t *testing.T, sessions int) *upstreamServer {
	t.Helper()
	s := &upstreamServer{bench: &bench{waiting: make(chan struct{}, 1), gone: make(chan struct{}, 1)}}
	spec := openenv.Spec[action, observation, openenv.State]{Name: "toolbox"}
	srv, err := envserver.New(spec, func(context.Context) (*toolbox, error) { return &toolbox{bench: s.bench}, nil },
		envserver.WithMaxSessions(sessions), envserver.WithMetadata(openenv.Metadata{Name: "toolbox", Description: "Tools to test with."}))
	if err != nil {
		t.Fatal(err)
	}
	served := openenvtest.ServeLoopback(t, srv)
	s.srv, s.url, s.opt = srv, served.URL(), served.Option()
	return s
}

// dial makes clients that take a call for a step.
func (s *upstreamServer) dial() (*mcp.Client, error) {
	return mcp.New(s.url, s.opt, openenv.WithMode(openenv.ModeSimulation))
}

// expectFree asserts that no session is left on the server. The server learns of a close
// a little later than the client has made it.
func (s *upstreamServer) expectFree(t *testing.T) {
	t.Helper()
	until(t, "free slots", func() bool { return s.srv.ActiveSessions() == 0 })
}

// expectWait returns when the tool wait runs.
func (s *upstreamServer) expectWait(t *testing.T) {
	t.Helper()
	select {
	case <-s.waiting:
	case <-time.After(patience):
		t.Fatal("the tool does not begin")
	}
}

var errNotDialled = errors.New("not dialled")
