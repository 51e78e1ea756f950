package envserver_test

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

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// toolEnv is an environment that has tools without the help of package mcp. Its tools
// do what they are called.
type toolEnv struct{ calls int }

func newToolEnv(ctx context.Context) (*toolEnv, error) {
	if envserver.ServerMode(ctx) == "" {
		return nil, errors.New("the build does not know the mode")
	}
	return new(toolEnv), nil
}

func (*toolEnv) ConcurrentSessions() bool { return true }

func (*toolEnv) Reset(context.Context, envserver.ResetParams) (openenv.StepResult[openenv.Object], error) {
	return openenv.StepResult[openenv.Object]{Observation: openenv.Object{}}, nil
}

func (*toolEnv) Step(context.Context, openenv.Object) (openenv.StepResult[openenv.Object], error) {
	return openenv.StepResult[openenv.Object]{}, nil
}

func (e *toolEnv) State(context.Context) (openenv.State, error) {
	return openenv.State{StepCount: e.calls}, nil
}

func (*toolEnv) ListTools(context.Context) ([]*sdk.Tool, error) {
	return []*sdk.Tool{{Name: "count", InputSchema: map[string]any{"type": "object"}}}, nil
}

func (e *toolEnv) CallTool(ctx context.Context, name string, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	e.calls++
	switch name {
	case "count":
		return &sdk.CallToolResult{StructuredContent: map[string]any{"calls": e.calls, "arguments": arguments, "mode": envserver.ServerMode(ctx)}}, nil
	case "nothing":
		return nil, nil //nolint:nilnil // which the server notices
	case "error":
		return nil, errors.New("plain error")
	case "typed":
		return nil, &envserver.ToolError{Type: envserver.ToolErrorInvalidArgs, Message: "typed error"}
	case "wait":
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	panic("no such tool: " + name)
}

var toolSpec = openenv.Spec[openenv.Object, openenv.Object, openenv.State]{Name: "tools"}

func serveTools(t *testing.T, opts ...envserver.Option) *openenvtest.Server {
	t.Helper()
	srv, err := envserver.New(toolSpec, newToolEnv, append([]envserver.Option{envserver.WithMaxSessions(4)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return openenvtest.ServeLoopback(t, srv)
}

func postMCP(t *testing.T, s *openenvtest.Server, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.HTTPClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func toolCall(name, session string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","session_id":"` + session + `"}}`
}

func TestToolProvider(t *testing.T) {
	leak.Check(t)
	s := serveTools(t, envserver.WithStepTimeout(100*time.Millisecond))
	for _, row := range []struct{ tool, want string }{
		{"count", `"data":{"arguments":{},"calls":1,"mode":"simulation"}`},
		{"nothing", `"message":"environment returned no result","data":{"error_type":"execution_error"}`},
		{"error", `"message":"plain error","data":{"error_type":"execution_error"}`},
		{"typed", `"message":"typed error","data":{"error_type":"invalid_args"}`},
		{"wait", `"message":"mcp exceeded the limit of 100ms","data":{"error_type":"timeout"}`},
		{"other", `"message":"environment panicked: no such tool: other","data":{"error_type":"execution_error"}`},
	} {
		if status, text := postMCP(t, s, toolCall(row.tool, "")); status != http.StatusOK || !strings.Contains(text, row.want) {
			t.Errorf("%s: %d, %s, want %s", row.tool, status, text, row.want)
		}
	}
}

// A panic ends the session of a socket; one that was made over HTTP takes no other call.
func TestPanicOfAToolProvider(t *testing.T) {
	leak.Check(t)
	s := serveTools(t)
	for _, path := range []string{"/ws", "/mcp"} {
		ws, _, err := websocket.Dial(t.Context(), s.URL()+path, &websocket.DialOptions{HTTPClient: s.HTTPClient()})
		if err != nil {
			t.Fatal(err)
		}
		message := toolCall("other", "")
		if path == "/ws" {
			message = `{"type":"mcp","data":` + message + `}`
		}
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if got, err := readFrame(t.Context(), ws); err != nil || !strings.Contains(got, "panicked") {
			t.Errorf("%s: %s, %v", path, got, err)
		}
		if _, err := readFrame(t.Context(), ws); websocket.CloseStatus(err) != websocket.StatusInternalError {
			t.Errorf("%s: %v, want the end", path, err)
		}
		_ = ws.CloseNow()
	}
	_, text := postMCP(t, s, `{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`)
	var made struct {
		Result struct {
			SessionID string `json:"session_id"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"other", "count"} {
		if _, text := postMCP(t, s, toolCall(tool, made.Result.SessionID)); !strings.Contains(text, "panicked") {
			t.Errorf("%s: %s", tool, text)
		}
	}
	if _, text := postMCP(t, s, toolCall("count", "")); !strings.Contains(text, `"calls":1`) {
		t.Errorf("the server afterwards: %s", text)
	}
}

// What guards the other routes guards the standard protocol.
func TestStandardProtocolIsGuarded(t *testing.T) {
	leak.Check(t)
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	const both = "application/json, text/event-stream"
	s := serveTools(t, envserver.WithToken("secret"), envserver.WithMaxMessageSize(1000))
	for _, row := range []struct {
		name    string
		body    string
		headers []string
		want    int
	}{
		{"no token", initialize, []string{"Accept", both}, http.StatusUnauthorized},
		{"other origin", initialize, []string{"Accept", both, "Authorization", "Bearer secret", "Origin", "https://example.com"}, http.StatusForbidden},
		{"too large", strings.Repeat(" ", 1001) + initialize, []string{"Accept", both, "Authorization", "Bearer secret"}, http.StatusRequestEntityTooLarge},
		{"allowed", initialize, []string{"Accept", both, "Authorization", "Bearer secret"}, http.StatusOK},
	} {
		if status, text := postMCP(t, s, row.body, row.headers...); status != row.want {
			t.Errorf("%s: %d, %s, want %d", row.name, status, text, row.want)
		}
	}
}

// A session that cannot be reset is not begun, and holds no slot.
func TestStandardSessionThatCannotBeReset(t *testing.T) {
	leak.Check(t)
	srv, err := envserver.New(toolSpec, func(context.Context) (*brokenEnv, error) { return new(brokenEnv), nil })
	if err != nil {
		t.Fatal(err)
	}
	s := openenvtest.ServeLoopback(t, srv)
	status, text := postMCP(t, s, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "cannot be reset") || srv.ActiveSessions() != 0 {
		t.Errorf("%d, %s, %d sessions", status, text, srv.ActiveSessions())
	}
}

type brokenEnv struct{ toolEnv }

func (*brokenEnv) Reset(context.Context, envserver.ResetParams) (openenv.StepResult[openenv.Object], error) {
	return openenv.StepResult[openenv.Object]{}, errors.New("cannot be reset")
}
