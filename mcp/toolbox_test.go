package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

type (
	addends struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	reason struct {
		Why string `json:"why"`
	}
	nothing struct{}
	wait    struct {
		Ms int `json:"ms"`
	}
	point struct {
		X int    `json:"x"`
		Y string `json:"y,omitempty"`
	}
)

// toolbox is a server's tools, and what the tests learn of them.
type toolbox struct {
	started chan struct{} // one value for each slow call that began
	causes  chan error    // why the ctx of a slow call ended
	release chan struct{} // lets stubborn calls go on
}

func newToolbox() *toolbox {
	return &toolbox{
		started: make(chan struct{}, 100), causes: make(chan error, 100),
		release: make(chan struct{}),
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recordedMeta is what FastMCP adds to each of its tools.
func recordedMeta() sdk.Meta { return sdk.Meta{"fastmcp": map[string]any{"tags": []any{}}} }

// server has the two tools of the recordings, and more when asked.
func (b *toolbox) server(t testing.TB, more bool) *sdk.Server {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "add", Description: "Add two integers.", Meta: recordedMeta()},
		func(_ context.Context, _ *sdk.CallToolRequest, in addends) (*sdk.CallToolResult, int, error) {
			return nil, in.A + in.B, nil
		}))
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "fail", Description: "Always fails.", Meta: recordedMeta()},
		func(_ context.Context, _ *sdk.CallToolRequest, in reason) (*sdk.CallToolResult, string, error) {
			return nil, "", errors.New(in.Why)
		}))
	if !more {
		return s
	}
	count := 0
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "inc"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, int, error) {
		count++
		return nil, count, nil
	}))
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "slow"}, func(ctx context.Context, _ *sdk.CallToolRequest, in wait) (*sdk.CallToolResult, string, error) {
		b.started <- struct{}{}
		select {
		case <-ctx.Done():
			b.causes <- context.Cause(ctx)
			return nil, "", ctx.Err()
		case <-time.After(time.Duration(in.Ms) * time.Millisecond):
			return nil, "slept", nil
		}
	}))
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "stubborn"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, string, error) {
		b.started <- struct{}{}
		<-b.release
		return nil, "at last", nil
	}))
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "boom"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, string, error) {
		panic("kaboom")
	}))
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "mode"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ nothing) (*sdk.CallToolResult, string, error) {
		return nil, string(envserver.ServerMode(ctx)), nil
	}))
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "point"}, func(_ context.Context, _ *sdk.CallToolRequest, in point) (*sdk.CallToolResult, point, error) {
		return nil, in, nil
	}))
	must(t, mcp.AddTool(s, &sdk.Tool{Name: "grow"}, func(_ context.Context, _ *sdk.CallToolRequest, _ nothing) (*sdk.CallToolResult, string, error) {
		here := func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, string, error) {
			return nil, "here", nil
		}
		return nil, "grown", errors.Join(mcp.AddTool(s, &sdk.Tool{Name: "grown"}, here), mcp.AddTool(s, &sdk.Tool{Name: "reset"}, here))
	}))
	s.AddTool(&sdk.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(req.Params.Arguments)}}}, nil
	})
	return s
}

// serve serves environments of the whole toolbox on loopback.
func (b *toolbox) serve(t *testing.T, opts []mcp.EnvironmentOption, server ...envserver.Option) *openenvtest.Server {
	t.Helper()
	srv, err := envserver.New(mcp.Spec, func(context.Context) (*mcp.Environment, error) {
		return mcp.NewEnvironment(b.server(t, true), opts...)
	}, append([]envserver.Option{envserver.WithMaxSessions(8)}, server...)...)
	if err != nil {
		t.Fatal(err)
	}
	return openenvtest.ServeLoopback(t, srv)
}

// post sends a request to POST /mcp in the peer's dialect.
func post(t testing.TB, s *openenvtest.Server, method, params string) map[string]any {
	t.Helper()
	text := postBody(t, s, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	var reply map[string]any
	if err := json.Unmarshal(text, &reply); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return reply
}

func postBody(t testing.TB, s *openenvtest.Server, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.HTTPClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// session makes a session over HTTP and returns its id.
func session(t testing.TB, s *openenvtest.Server) string {
	t.Helper()
	reply := post(t, s, "openenv/session/create", "{}")
	result, _ := reply["result"].(map[string]any)
	id, _ := result["session_id"].(string)
	if id == "" {
		t.Fatalf("no session: %v", reply)
	}
	return id
}

// at follows a path of member names into a decoded value.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// line is a socket of which each message is one JSON text.
type line struct {
	t  testing.TB
	ws *websocket.Conn
}

func dial(t testing.TB, s *openenvtest.Server, path string) *line {
	t.Helper()
	ws, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(s.URL(), "http")+path, &websocket.DialOptions{HTTPClient: s.HTTPClient()})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(10 << 20)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &line{t, ws}
}

func (l *line) send(text string) {
	l.t.Helper()
	if err := l.ws.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *line) next() map[string]any {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, text, err := l.ws.Read(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		l.t.Fatalf("%s: %v", text, err)
	}
	return v
}

func (l *line) ask(text string) map[string]any {
	l.t.Helper()
	l.send(text)
	return l.next()
}

// receive waits for a value with a bound.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// wantEnded waits until the ctx of a slow call has ended.
func wantEnded(t testing.TB, b *toolbox) {
	t.Helper()
	if cause := receive(t, b.causes); cause == nil {
		t.Error("the ctx ended without a cause")
	}
}
