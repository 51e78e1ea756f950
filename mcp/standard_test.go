package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

func serveLoopback(t *testing.T, srv *envserver.Server) *openenvtest.Server {
	t.Helper()
	return openenvtest.ServeLoopback(t, srv)
}

// abandoned sends a request whose answer nobody wants.
func abandoned(ctx context.Context, s *openenvtest.Server, body string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		return
	}
	if resp, err := s.HTTPClient().Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

// connectStandard connects the official Go client to /mcp until the test ends.
func connectStandard(t *testing.T, s *openenvtest.Server) *sdk.ClientSession {
	t.Helper()
	c, err := tryStandard(t, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func tryStandard(t *testing.T, s *openenvtest.Server) (*sdk.ClientSession, error) {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, nil)
	return client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.URL() + "/mcp", HTTPClient: s.HTTPClient()}, nil)
}

// The official Go client finds an environment's tools on the same route, keeps its
// state between calls, and frees its slot when it leaves.
func TestStandardClient(t *testing.T) {
	leak.Check(t)
	srv, err := envserver.New(mcp.Spec, func(context.Context) (*mcp.Environment, error) {
		return mcp.NewEnvironment(newToolbox().server(t, true))
	}, envserver.WithMaxSessions(1))
	if err != nil {
		t.Fatal(err)
	}
	s := serveLoopback(t, srv)
	for range 3 {
		c := connectStandard(t, s)
		if err := c.Ping(t.Context(), nil); err != nil {
			t.Error(err)
		}
		tools, err := c.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 10 {
			t.Fatalf("tools: %v, %v", tools, err)
		}
		if tools.Tools[0].Name != "add" || tools.Tools[0].OutputSchema == nil || tools.Tools[0].Meta == nil || tools.Tools[0].Description != "Add two integers." {
			t.Errorf("first tool: %+v", tools.Tools[0])
		}
		for want := range 2 {
			res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "inc"})
			if err != nil {
				t.Fatal(err)
			}
			if at(res.StructuredContent, "result") != float64(want+1) {
				t.Errorf("got %+v, want %d", res, want+1)
			}
		}
		for tool, text := range map[string]string{"fail": "on purpose", "add": "arguments"} {
			res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"why": "on purpose"}})
			if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*sdk.TextContent).Text, text) {
				t.Errorf("%s: %+v, %v", tool, res, err)
			}
		}
		if srv.ActiveSessions() != 1 {
			t.Errorf("%d sessions", srv.ActiveSessions())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if srv.ActiveSessions() != 0 {
			t.Error("the slot is not free after the close")
		}
	}
}

// A standard client that cancels ends the handler's ctx; its session goes on.
func TestStandardCancellation(t *testing.T) {
	leak.Check(t)
	b := newToolbox()
	c := connectStandard(t, b.serve(t, nil))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-b.started
		cancel()
	}()
	if _, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "slow", Arguments: wait{Ms: 60000}}); err == nil {
		t.Error("no error")
	}
	wantEnded(t, b)
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "inc"}); err != nil {
		t.Error(err)
	}
}

// A full server answers initialize with 503, and says why in JSON-RPC.
func TestStandardSessionNeedsASlot(t *testing.T) {
	leak.Check(t)
	s := newToolbox().serve(t, nil, envserver.WithMaxSessions(1))
	session(t, s)
	status, text := send(t, s, http.MethodPost, initialize, "application/json, text/event-stream")
	var reply any
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatal(err)
	}
	if status != http.StatusServiceUnavailable || at(reply, "error", "code") != -32000.0 || at(reply, "error", "data", "max_sessions") != 1.0 || at(reply, "id") != 7.0 {
		t.Errorf("status %d, %s", status, text)
	}
	if _, err := tryStandard(t, s); err == nil || !strings.Contains(err.Error(), "Service Unavailable") {
		t.Errorf("the client says %v", err)
	}
}

const initialize = `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func send(t *testing.T, s *openenvtest.Server, method, body, accept string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
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

// Which request is taken for which dialect.
func TestDialects(t *testing.T) {
	leak.Check(t)
	s := newToolbox().serve(t, nil)
	const list, create = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`
	const events, both = "text/event-stream", "application/json, text/event-stream"
	for _, row := range []struct {
		name, method, body, accept string
		headers                    []string
		status                     int
		want                       string
	}{
		{"peer list", "POST", list, "*/*", nil, 200, `"inputSchema"`},
		{"peer list without Accept", "POST", list, "", nil, 200, `"inputSchema"`},
		{"peer list, JSON", "POST", list, "application/json", nil, 200, `"outputSchema"`},
		{"peer create from a standard client", "POST", create, both, []string{"Mcp-Session-Id", "x"}, 200, `"session_id"`},
		{"peer notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", nil, 202, ``},
		{"peer unknown method", "POST", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, "", nil, 200, `-32601`},
		{"initialize", "POST", initialize, both, nil, 200, `"protocolVersion":"2025-06-18"`},
		{"initialize without Accept", "POST", initialize, "", nil, 200, `"protocolVersion":"2025-06-18"`},
		{"standard, session gone", "POST", list, both, []string{"Mcp-Session-Id", "gone"}, 404, "session not found"},
		{"standard by version", "POST", list, "*/*", []string{"MCP-Protocol-Version", "2025-06-18"}, 200, "initialize first"},
		{"standard, batch without a session", "POST", "[]", both, nil, 400, ""},
		{"stream without a session", "GET", "", events, nil, 400, "Mcp-Session-Id"},
		{"stream of an unknown session", "GET", "", events, []string{"Mcp-Session-Id", "gone"}, 404, "session not found"},
		{"plain GET", "GET", "", "*/*", nil, 405, "Method Not Allowed"},
		{"end of an unknown session", "DELETE", "", "", []string{"Mcp-Session-Id", "gone"}, 404, "session not found"},
		{"end of no session", "DELETE", "", "", nil, 400, "Mcp-Session-Id"},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, text := send(t, s, row.method, row.body, row.accept, row.headers...)
			if status != row.status || !strings.Contains(text, row.want) {
				t.Errorf("status %d, %s; want %d, %s", status, text, row.status, row.want)
			}
		})
	}
}

// A GET that is neither an upgrade nor a stream is told what the route takes.
func TestPlainGetIsToldTheMethod(t *testing.T) {
	leak.Check(t)
	s := newToolbox().serve(t, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/mcp", nil)
	must(t, err)
	resp, err := s.HTTPClient().Do(req)
	must(t, err)
	defer resp.Body.Close()
	if allow := resp.Header.Get("Allow"); resp.StatusCode != http.StatusMethodNotAllowed || allow != "POST" {
		t.Errorf("status %d, Allow %q", resp.StatusCode, allow)
	}
}

// A session of a client that left without a word ends when it was idle for too long;
// one whose stream is open is not idle.
func TestIdleStandardSession(t *testing.T) {
	leak.Check(t)
	srv, err := envserver.New(mcp.Spec, func(context.Context) (*mcp.Environment, error) {
		return mcp.NewEnvironment(newToolbox().server(t, true))
	}, envserver.WithMaxSessions(2), envserver.WithIdleTimeout(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	s := serveLoopback(t, srv)
	host := connectStandard(t, s) // keeps a stream of events open
	status, _ := send(t, s, http.MethodPost, initialize, "application/json, text/event-stream")
	if status != http.StatusOK || srv.ActiveSessions() != 2 {
		t.Fatalf("status %d, %d sessions", status, srv.ActiveSessions())
	}
	for srv.ActiveSessions() == 2 && t.Context().Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(700 * time.Millisecond)
	if srv.ActiveSessions() != 1 {
		t.Errorf("%d sessions, want the one with a stream", srv.ActiveSessions())
	}
	if _, err := host.CallTool(t.Context(), &sdk.CallToolParams{Name: "inc"}); err != nil {
		t.Error(err)
	}
}

// A server that shuts down answers the call in progress and ends its sessions.
func TestShutdownEndsStandardSessions(t *testing.T) {
	leak.Check(t)
	b := newToolbox()
	srv, err := envserver.New(mcp.Spec, func(context.Context) (*mcp.Environment, error) {
		return mcp.NewEnvironment(b.server(t, true))
	})
	if err != nil {
		t.Fatal(err)
	}
	c := connectStandard(t, serveLoopback(t, srv))
	answered := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "slow", Arguments: wait{Ms: 200}})
		answered <- err
	}()
	receive(t, b.started)
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := receive(t, answered); err != nil {
		t.Errorf("the call in progress: %v", err)
	}
	if srv.ActiveSessions() != 0 {
		t.Errorf("%d sessions", srv.ActiveSessions())
	}
}
