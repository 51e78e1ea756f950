package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/mcp"
)

// A call by step on many sockets at once waits for nothing that another holds.
func TestCallByStepOnEightSocketsAtOnce(t *testing.T) {
	leak.Check(t)
	s := newToolbox().serve(t, nil)
	sockets := make([]*line, 8)
	for i := range sockets {
		sockets[i] = dial(t, s, "/ws")
		sockets[i].ask(`{"type":"reset"}`)
	}
	const each = 20
	began := time.Now()
	var all sync.WaitGroup
	for i, l := range sockets {
		all.Go(func() {
			for n := range each {
				got := l.ask(fmt.Sprintf(`{"type":"step","data":{"type":"call_tool","tool_name":"add","arguments":{"a":%d,"b":%d}}}`, i, n))
				if data := at(got, "data", "observation", "result", "data"); data != float64(i+n) {
					t.Errorf("socket %d, call %d: %v", i, n, got)
				}
			}
		})
	}
	all.Wait()
	// 160 calls that wait for each other's limits would take minutes.
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d calls took %v", len(sockets)*each, took)
	}
}

func TestListToolsByStep(t *testing.T) {
	leak.Check(t)
	l := dial(t, newToolbox().serve(t, nil), "/ws")
	got := l.ask(`{"type":"step","data":{"type":"list_tools"}}`)
	tools, _ := at(got, "data", "observation", "tools").([]any)
	if len(tools) != 10 || at(tools[0], "input_schema", "type") != "object" {
		t.Errorf("got %v", got)
	}
}

// On an environment without tools an action that looks like a tool call is its own.
func TestToolActionOfAPlainEnvironment(t *testing.T) {
	leak.Check(t)
	srv, err := envserver.New(openenv.Spec[plainAction, openenv.Object, openenv.State]{Name: "plain"}, newPlain)
	if err != nil {
		t.Fatal(err)
	}
	l := dial(t, serveLoopback(t, srv), "/ws")
	got := l.ask(`{"type":"step","data":{"type":"call_tool","amount":3}}`)
	if at(got, "data", "observation", "got") != "call_tool 3" {
		t.Errorf("got %v", got)
	}
	got = l.ask(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}`)
	if at(got, "data", "error", "message") != "Environment does not support MCP" {
		t.Errorf("got %v", got)
	}
}

type plainAction struct {
	Type   string `json:"type"`
	Amount int    `json:"amount"`
}

type plain struct{}

func newPlain(context.Context) (*plain, error) { return new(plain), nil }

func (*plain) Reset(context.Context, envserver.ResetParams) (openenv.StepResult[openenv.Object], error) {
	return openenv.StepResult[openenv.Object]{}, nil
}

func (*plain) Step(_ context.Context, a plainAction) (openenv.StepResult[openenv.Object], error) {
	return openenv.StepResult[openenv.Object]{Observation: openenv.Object{"got": fmt.Sprint(a.Type, " ", a.Amount)}}, nil
}

func (*plain) State(context.Context) (openenv.State, error) { return openenv.State{}, nil }

// What is wrong with a tool action is told in the words of the peer.
func TestInvalidToolActions(t *testing.T) {
	leak.Check(t)
	l := dial(t, newToolbox().serve(t, nil), "/ws")
	for _, row := range []struct{ action, typ, loc string }{
		{`{"type":"call_tool"}`, "missing", "[tool_name]"},
		{`{}`, "missing", "[tool_name]"},
		{`{"type":"other","tool_name":"add"}`, "literal_error", "[type]"},
		{`{"type":"call_tool","tool_name":7}`, "string_type", "[tool_name]"},
		{`{"type":"call_tool","tool_name":"add","arguments":[1]}`, "dict_type", "[arguments]"},
		{`{"type":"call_tool","tool_name":"add","more":1}`, "extra_forbidden", "[more]"},
		{`{"type":"list_tools","tool_name":"add"}`, "extra_forbidden", "[tool_name]"},
	} {
		got := l.ask(`{"type":"step","data":` + row.action + `}`)
		errs, _ := at(got, "data", "errors").([]any)
		if at(got, "data", "code") != "VALIDATION_ERROR" || len(errs) != 1 || at(errs[0], "type") != row.typ || fmt.Sprint(at(errs[0], "loc")) != row.loc {
			t.Errorf("%s: got %v, want %s at %s", row.action, got, row.typ, row.loc)
		}
	}
	for _, action := range []string{
		`{"tool_name":"add","arguments":{"a":1,"b":2}}`, // the type is a call's unless it says otherwise
		`{"metadata":{"k":1},"type":"call_tool","tool_name":"add","arguments":{"a":1,"b":2}}`,
	} {
		if got := l.ask(`{"type":"step","data":` + action + `}`); at(got, "data", "observation", "result", "data") != 3.0 {
			t.Errorf("%s: got %v", action, got)
		}
	}
	if got := l.ask(`{"type":"step","data":{"metadata":{},"type":"list_tools"}}`); at(got, "data", "observation", "tools") == nil {
		t.Errorf("got %v", got)
	}
}

// Calls on a session that was made over HTTP share its state, and end with it. A
// session that could not be made holds no slot.
func TestHTTPSessionKeepsState(t *testing.T) {
	leak.Check(t)
	builds := 0
	srv, err := envserver.New(mcp.Spec, func(context.Context) (*mcp.Environment, error) {
		if builds++; builds <= 10 {
			return nil, errors.New("not yet")
		}
		return mcp.NewEnvironment(newToolbox().server(t, true))
	}, envserver.WithMaxSessions(1))
	if err != nil {
		t.Fatal(err)
	}
	s := serveLoopback(t, srv)
	for range 10 {
		if got := post(t, s, "openenv/session/create", "{}"); at(got, "error", "code") != -32000.0 {
			t.Fatalf("got %v", got)
		}
	}
	id := session(t, s)
	for want := range 3 {
		got := post(t, s, "tools/call", `{"name":"inc","arguments":{},"session_id":"`+id+`"}`)
		if at(got, "result", "data") != float64(want+1) {
			t.Errorf("call %d: got %v", want+1, got)
		}
	}
	if got := post(t, s, "openenv/session/close", `{"session_id":"`+id+`"}`); at(got, "result", "closed") != true {
		t.Errorf("got %v", got)
	}
	got := post(t, s, "tools/call", `{"name":"inc","arguments":{},"session_id":"`+id+`"}`)
	if at(got, "error", "code") != -32602.0 {
		t.Errorf("after the close: got %v", got)
	}
	for range 2 { // without a session each call has an environment of its own
		if got := post(t, s, "tools/call", `{"name":"inc"}`); at(got, "result", "data") != 1.0 {
			t.Errorf("got %v", got)
		}
	}
}

// HTTP calls and socket frames of one session take turns.
func TestHTTPCallsTakeTurnsWithTheSocket(t *testing.T) {
	leak.Check(t)
	b := newToolbox()
	s := b.serve(t, nil)
	id := session(t, s)
	l := dial(t, s, "/ws?session_id="+id)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		abandoned(ctx, s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ms":60000},"session_id":"`+id+`"}}`)
	}()
	receive(t, b.started)
	answered := make(chan map[string]any, 1)
	l.send(`{"type":"step","data":{"type":"call_tool","tool_name":"inc"}}`)
	go func() { answered <- l.next() }()
	select {
	case got := <-answered:
		t.Errorf("the frame did not wait: %v", got)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	<-gone
	if got := receive(t, answered); at(got, "data", "observation", "result", "data") != 1.0 {
		t.Errorf("got %v", got)
	}
	if got := post(t, s, "tools/call", `{"name":"inc","session_id":"`+id+`"}`); at(got, "result", "data") != 2.0 {
		t.Errorf("the state is not shared: %v", got)
	}
}

// A session is free again as soon as its close is answered.
func TestFiftySessionsOnOneSlot(t *testing.T) {
	leak.Check(t)
	s := newToolbox().serve(t, nil, envserver.WithMaxSessions(1))
	for range 50 {
		id := session(t, s)
		if got := post(t, s, "tools/call", `{"name":"inc","session_id":"`+id+`"}`); at(got, "result", "data") != 1.0 {
			t.Fatalf("got %v", got)
		}
		if got := post(t, s, "openenv/session/close", `{"session_id":"`+id+`"}`); at(got, "result", "closed") != true {
			t.Fatalf("got %v", got)
		}
	}
}

// Where control frames are closed, tools are not.
func TestToolsInStrictProduction(t *testing.T) {
	leak.Check(t)
	l := dial(t, newToolbox().serve(t, nil, envserver.WithMode(openenv.ModeProduction), envserver.WithStrictProduction()), "/ws")
	if got := l.ask(`{"type":"step","data":{"type":"call_tool","tool_name":"inc"}}`); at(got, "data", "code") != "EXECUTION_ERROR" {
		t.Errorf("got %v", got)
	}
	if got := l.ask(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inc"}}}`); at(got, "data", "result", "data") != 1.0 {
		t.Errorf("got %v", got)
	}
}

// In each mode the same tools are seen and called on every transport, and a call of a
// tool of the other mode says so.
func TestToolsOfAMode(t *testing.T) {
	only := []mcp.EnvironmentOption{
		mcp.WithToolsFor(openenv.ModeProduction, "add"), mcp.WithToolsFor(openenv.ModeSimulation, "inc"),
	}
	for _, mode := range []openenv.Mode{openenv.ModeProduction, openenv.ModeSimulation} {
		t.Run(string(mode), func(t *testing.T) {
			leak.Check(t)
			s := newToolbox().serve(t, only, envserver.WithMode(mode))
			here, other := "add", "inc"
			if mode == openenv.ModeSimulation {
				here, other = other, here
			}
			refused := "Tool '" + other + "' not available in " + string(mode) + " mode"
			id := session(t, s)
			frames, socket := dial(t, s, "/ws"), dial(t, s, "/mcp")
			host := connectStandard(t, s)
			step := func(action string) any {
				return at(frames.ask(`{"type":"step","data":`+action+`}`), "data", "observation")
			}
			rpc := func(ask func(request string) any) func(method, params string) any {
				return func(method, params string) any {
					return ask(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
				}
			}
			for name, via := range map[string]func(method, params string) any{
				"HTTP": func(method, params string) any { return post(t, s, method, params) },
				"session": func(method, params string) any {
					if !strings.Contains(params, "session_id") {
						params = `{"session_id":"` + id + `",` + params[1:]
					}
					return post(t, s, method, params)
				},
				"socket": rpc(func(request string) any { return socket.ask(request) }),
				"frame":  rpc(func(request string) any { return at(frames.ask(`{"type":"mcp","data":`+request+`}`), "data") }),
			} {
				wantNames(t, name, at(via("tools/list", `{"page":1}`), "result", "tools"), here, other)
				if got := via("tools/call", `{"name":"mode"}`); at(got, "result", "data") != string(mode) {
					t.Errorf("%s: the handler sees %v", name, got)
				}
				got := via("tools/call", `{"name":"`+other+`"}`)
				if at(got, "error", "message") != refused || at(got, "error", "data", "error_type") != "tool_not_found" {
					t.Errorf("%s: got %v", name, got)
				}
			}
			wantNames(t, "step", at(step(`{"type":"list_tools"}`), "tools"), here, other)
			if got := step(`{"type":"call_tool","tool_name":"` + other + `"}`); at(got, "error", "message") != refused || at(got, "error", "error_type") != "tool_not_found" {
				t.Errorf("step: got %v", got)
			}
			listed, err := host.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var tools []any
			for _, tool := range listed.Tools {
				tools = append(tools, map[string]any{"name": tool.Name})
			}
			wantNames(t, "standard", tools, here, other)
			if _, err := host.CallTool(t.Context(), &sdk.CallToolParams{Name: other}); err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("standard: %v", err)
			}
		})
	}
}

func wantNames(t *testing.T, via string, tools any, here, other string) {
	t.Helper()
	list, _ := tools.([]any)
	var names []string
	for _, tool := range list {
		names = append(names, fmt.Sprint(at(tool, "name")))
	}
	all := " " + strings.Join(names, " ") + " "
	if len(names) != 9 || !strings.Contains(all, " "+here+" ") || strings.Contains(all, " "+other+" ") || !strings.Contains(all, " point ") {
		t.Errorf("%s: tools are %v", via, names)
	}
}

// A call that is a step has a reward and may end the episode; over MCP it has neither.
func TestRewardComesWithSteps(t *testing.T) {
	leak.Check(t)
	one := 1.0
	s := newToolbox().serve(t, []mcp.EnvironmentOption{mcp.WithReward(func(_ context.Context, call mcp.StepCall) (*float64, bool) {
		if call.Failure != nil {
			return nil, false
		}
		return &one, strings.Contains(string(call.Arguments), `"a":9`) && call.Result != nil
	})})
	l := dial(t, s, "/ws")
	for _, row := range []struct {
		action string
		reward any
		done   bool
	}{
		{`{"type":"call_tool","tool_name":"add","arguments":{"a":1,"b":2}}`, 1.0, false},
		{`{"type":"call_tool","tool_name":"fail","arguments":{"why":"x"}}`, nil, false},
		{`{"type":"call_tool","tool_name":"add","arguments":{"a":9,"b":2}}`, 1.0, true},
		{`{"type":"list_tools"}`, nil, false},
	} {
		got := l.ask(`{"type":"step","data":` + row.action + `}`)
		if at(got, "data", "reward") != row.reward || at(got, "data", "done") != row.done {
			t.Errorf("%s: got %v, want %v, %v", row.action, got, row.reward, row.done)
		}
	}
	if got := l.ask(`{"type":"state"}`); at(got, "data", "step_count") != 3.0 {
		t.Errorf("got %v, want the three calls counted", got)
	}
	got := l.ask(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":9,"b":2}}}}`)
	if result, ok := at(got, "data", "result").(map[string]any); !ok || result["reward"] != nil || result["done"] != nil {
		t.Errorf("got %v", got)
	}
	if got := l.ask(`{"type":"state"}`); at(got, "data", "step_count") != 3.0 {
		t.Errorf("a call over MCP was counted: %v", got)
	}
}

// Each failure has its kind, on the session socket and over HTTP.
func TestKindsOfFailedCalls(t *testing.T) {
	leak.Check(t)
	b := newToolbox()
	s := b.serve(t, []mcp.EnvironmentOption{mcp.WithCallTimeout(100 * time.Millisecond)})
	l := dial(t, s, "/ws")
	for _, row := range []struct{ tool, arguments, kind, text string }{
		{"nope", `{}`, "tool_not_found", "Unknown tool: 'nope'"},
		{"add", `{"a":"x","b":1}`, "invalid_args", `/properties/a`},
		{"add", `{"a":1}`, "invalid_args", `"b"`},
		{"add", `{"a":1,"b":2,"c":3}`, "invalid_args", `"c"`},
		{"fail", `{"why":"x"}`, "execution_error", "Error calling tool 'fail': x"},
		{"boom", `{}`, "execution_error", "kaboom"},
		{"slow", `{"ms":60000}`, "timeout", "Tool 'slow' timed out after 0.1 seconds"},
	} {
		got := l.ask(`{"type":"step","data":{"type":"call_tool","tool_name":"` + row.tool + `","arguments":` + row.arguments + `}}`)
		text, _ := at(got, "data", "observation", "error", "message").(string)
		if at(got, "data", "observation", "error", "error_type") != row.kind || !strings.Contains(text, row.text) || at(got, "data", "observation", "result") != nil {
			t.Errorf("%s %s by step: got %v, want %s: %s", row.tool, row.arguments, got, row.kind, row.text)
		}
		got = post(t, s, "tools/call", `{"name":"`+row.tool+`","arguments":`+row.arguments+`}`)
		text, _ = at(got, "error", "message").(string)
		if at(got, "error", "code") != -32603.0 || at(got, "error", "data", "error_type") != row.kind || !strings.Contains(text, row.text) {
			t.Errorf("%s %s over HTTP: got %v, want %s: %s", row.tool, row.arguments, got, row.kind, row.text)
		}
	}
	if got := post(t, s, "tools/call", `{"name":"add","arguments":[1]}`); at(got, "error", "data", "error_type") != "invalid_args" {
		t.Errorf("got %v", got)
	}
	if got := l.ask(`{"type":"step","data":{"type":"call_tool","tool_name":"add","arguments":{"a":1,"b":2}}}`); at(got, "data", "observation", "result", "data") != 3.0 {
		t.Errorf("afterwards: got %v", got)
	}
}

// A handler that does not heed the end of its call keeps the environment to itself
// until it returns, and its caller is answered in time.
func TestHandlerThatDoesNotHeedItsLimit(t *testing.T) {
	leak.Check(t)
	b := newToolbox()
	s := b.serve(t, []mcp.EnvironmentOption{mcp.WithCallTimeout(50 * time.Millisecond)})
	l := dial(t, s, "/ws")
	call := func(tool string) any {
		return at(l.ask(`{"type":"step","data":{"type":"call_tool","tool_name":"`+tool+`","arguments":{}}}`), "data", "observation")
	}
	for _, tool := range []string{"stubborn", "inc"} {
		if got := call(tool); at(got, "error", "error_type") != "timeout" {
			t.Errorf("%s: got %v", tool, got)
		}
	}
	if got := post(t, s, "tools/call", `{"name":"stubborn"}`); at(got, "error", "data", "error_type") != "timeout" {
		t.Errorf("over HTTP: got %v", got)
	}
	close(b.release)
	for at(call("inc"), "error", "error_type") == "timeout" {
		if t.Context().Err() != nil {
			t.Fatal("the environment stays taken")
		}
	}
}

// The client that leaves ends the ctx of its call, over HTTP and on a socket.
func TestClientThatLeavesEndsItsCall(t *testing.T) {
	leak.Check(t)
	b := newToolbox()
	s := b.serve(t, nil)
	id := session(t, s)
	for name, params := range map[string]string{
		"throw-away": `{"name":"slow","arguments":{"ms":60000}}`,
		"session":    `{"name":"slow","arguments":{"ms":60000},"session_id":"` + id + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				abandoned(ctx, s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`)
			}()
			receive(t, b.started)
			cancel()
			<-gone
			wantEnded(t, b)
		})
	}
	if got := post(t, s, "tools/call", `{"name":"inc","session_id":"`+id+`"}`); at(got, "result", "data") != 1.0 {
		t.Errorf("the session afterwards: %v", got)
	}
	t.Run("socket", func(t *testing.T) {
		l := dial(t, s, "/mcp")
		l.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ms":60000}}}`)
		receive(t, b.started)
		_ = l.ws.CloseNow()
		wantEnded(t, b)
	})
}

// A cancelled request is not answered, whether it ran or waited; the next one is.
func TestCancelledRequestHasNoReply(t *testing.T) {
	leak.Check(t)
	b := newToolbox()
	l := dial(t, b.serve(t, nil), "/mcp")
	slow := func(id string) {
		l.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"slow","arguments":{"ms":60000}}}`)
	}
	cancel := func(id string) {
		l.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	slow("5")
	receive(t, b.started)
	l.send(`{"jsonrpc":"2.0","id":"waits","method":"tools/call","params":{"name":"inc","arguments":{}}}`)
	cancel(`"waits"`)
	cancel(`"unknown"`)
	cancel("5")
	wantEnded(t, b)
	if got := l.ask(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"inc","arguments":{}}}`); got["id"] != 6.0 || at(got, "result", "data") != 1.0 {
		t.Errorf("got %v, want the first count, for id 6", got)
	}
	cancel("6") // too late: nothing happens
	if got := l.ask(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"inc","arguments":{}}}`); got["id"] != 6.0 || at(got, "result", "data") != 2.0 {
		t.Errorf("got %v, want an answer: an id may be used again", got)
	}
}

func TestConstruction(t *testing.T) {
	leak.Check(t)
	named := func(names ...string) *sdk.Server {
		s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
		for _, name := range names {
			must(t, mcp.AddTool(s, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, string, error) {
				return nil, "", nil
			}))
		}
		return s
	}
	used := named("a")
	first, err := mcp.NewEnvironment(used)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, row := range []struct {
		name   string
		server *sdk.Server
		opts   []mcp.EnvironmentOption
		want   string
	}{
		{"no server", nil, nil, "no server"},
		{"server in use", used, nil, "a server of its own"},
		{"nil option", named(), []mcp.EnvironmentOption{nil}, "nil option"},
		{"negative limit", named(), []mcp.EnvironmentOption{mcp.WithCallTimeout(-1)}, "negative"},
		{"unknown mode", named(), []mcp.EnvironmentOption{mcp.WithToolsFor("other", "a")}, "other"},
		{"unknown tool", named("a"), []mcp.EnvironmentOption{mcp.WithToolsFor(openenv.ModeProduction, "b")}, `no tool "b"`},
		{"both modes", named("a"), []mcp.EnvironmentOption{mcp.WithToolsFor(openenv.ModeProduction, "a"), mcp.WithToolsFor(openenv.ModeSimulation, "a")}, "both modes"},
		{"nil reset", named(), []mcp.EnvironmentOption{mcp.WithReset(nil)}, "nil function"},
		{"nil reward", named(), []mcp.EnvironmentOption{mcp.WithReward(nil)}, "nil function"},
		{"reserved names", named("step", "a", "close"), nil, `["close" "step"]`},
	} {
		env, err := mcp.NewEnvironment(row.server, row.opts...)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", row.name, err, row.want)
		}
		if env != nil {
			_ = env.Close()
		}
	}
	_, err = mcp.NewEnvironment(named("state"))
	if taken, ok := errors.AsType[*mcp.ReservedNameError](err); !ok || len(taken.Names) != 1 || taken.Names[0] != "state" {
		t.Errorf("got %v", err)
	}
}

// A tool that a handler adds can be called next, unless its name is reserved.
func TestToolsMayComeAndGo(t *testing.T) {
	leak.Check(t)
	s := newToolbox().serve(t, nil)
	id := session(t, s)
	for _, tool := range []string{"grow", "grown"} {
		if got := post(t, s, "tools/call", `{"name":"`+tool+`","session_id":"`+id+`"}`); at(got, "result") == nil {
			t.Errorf("%s: got %v", tool, got)
		}
	}
	if got := post(t, s, "tools/call", `{"name":"reset","session_id":"`+id+`"}`); at(got, "error", "data", "error_type") != "tool_not_found" {
		t.Errorf("got %v", got)
	}
	tools, err := json.Marshal(post(t, s, "tools/list", `{"session_id":"`+id+`"}`))
	if err != nil || strings.Contains(string(tools), `"name":"reset"`) || !strings.Contains(string(tools), `"name":"grown"`) {
		t.Errorf("tools are %s, %v", tools, err)
	}
}

// Arguments reach a handler that reads them itself with the digits that they were sent
// with, by step, too.
func TestArgumentsKeepTheirDigits(t *testing.T) {
	leak.Check(t)
	l := dial(t, newToolbox().serve(t, nil), "/ws")
	got := l.ask(`{"type":"step","data":{"type":"call_tool","tool_name":"raw","arguments":{"n":9007199254740993}}}`)
	if at(got, "data", "observation", "result", "data") != `{"n":9007199254740993}` {
		t.Errorf("got %v", got)
	}
}

func TestObservationKeepsWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{
		`{"board":[1,2],"big":9007199254740993}`,
		`{"error":null,"result":{"data":3},"tool_name":"add"}`,
		`{"error":{"error_type":"timeout","message":"m"},"extra":{"a":null},"result":null,"tool_name":"add"}`,
		`{"metadata":{"a":1},"tools":[]}`,
	} {
		var o mcp.Observation
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		back, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		_ = json.Unmarshal([]byte(text), &want)
		_ = json.Unmarshal(back, &got)
		if fmt.Sprint(want) != fmt.Sprint(got) || strings.Contains(text, "9007199254740993") != strings.Contains(string(back), "9007199254740993") {
			t.Errorf("%s came back as %s", text, back)
		}
	}
}

func FuzzObservation(f *testing.F) {
	f.Add([]byte(`{"tool_name":"add","result":{"data":3},"error":null,"x":1e400}`))
	f.Add([]byte(`{"tools":null,"error":{"error_type":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var o mcp.Observation
		if json.Unmarshal(text, &o) != nil {
			return
		}
		back, err := json.Marshal(o)
		if err != nil {
			t.Fatalf("%s was read and cannot be written: %v", text, err)
		}
		var again mcp.Observation
		if err := json.Unmarshal(back, &again); err != nil {
			t.Fatalf("%s became %s: %v", text, back, err)
		}
	})
}
