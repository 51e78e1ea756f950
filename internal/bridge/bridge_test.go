package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/bridge"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/mcp"
)

// patience bounds every wait for another goroutine or process.
const patience = 20 * time.Second

// until polls what no event tells.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for: %s", what)
		}
	}
}

// host is the official SDK's client at the end of a bridge over pipes.
type host struct {
	*sdk.ClientSession

	bridge <-chan error
}

// leave closes the host's end and returns what the bridge ended with.
func (h *host) leave(t *testing.T) error {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Errorf("close the host: %v", err)
	}
	return awaitEnd(t, h.bridge)
}

func awaitEnd(t *testing.T, bridge <-chan error) error {
	t.Helper()
	select {
	case err := <-bridge:
		return err
	case <-time.After(patience):
		t.Fatal("the bridge does not end")
		return nil
	}
}

// overStdio starts a bridge over pipes and connects a host to it.
func overStdio(ctx context.Context, t *testing.T, dial func() (*mcp.Client, error)) *host {
	t.Helper()
	fromHost, toBridge := io.Pipe()
	fromBridge, toHost := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- bridge.Stdio(ctx, fromHost, toHost, bridge.Config{Dial: dial, Version: "v0"})
		fromHost.Close()
		toHost.Close()
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "v1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: fromBridge, Writer: toBridge}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return &host{session, ended}
}

func call(t *testing.T, s *sdk.ClientSession, tool string, args any) *sdk.CallToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("call %s: %v", tool, err)
	}
	return r
}

// asJSON is a value as it looks on the wire, without what the SDK's server says of
// itself in every result.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	if r, ok := v.(*sdk.CallToolResult); ok {
		delete(r.Meta, sdk.MetaKeyServerInfo)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(decoded); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Tools come as the environment lists them: in its order, with every field, whatever
// their schemas look like.
func TestListKeepsEverything(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 1)
	h := overStdio(t.Context(), t, s.dial)
	list, err := h.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"_meta":{"own":{"n":1}},"annotations":{"idempotentHint":false,"readOnlyHint":true},"description":"listed before a","icons":[{"src":"data:image/png;base64,AA=="}],` +
		`"inputSchema":{"additionalProperties":false,"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"type":"object"},` +
		`"name":"z-first","outputSchema":{"type":"object","x-own":true},"title":"First"},` +
		`{"description":"a schema that is no object's","inputSchema":{"anyOf":[{"type":"object"}]},"name":"a-second"}]`
	if got := asJSON(t, list.Tools); got != want {
		t.Errorf("tools\n%s\nwant\n%s", got, want)
	}
	said := h.InitializeResult()
	if said.ServerInfo.Name != "toolbox" || said.ServerInfo.Version != "v0" || said.Instructions != "Tools to test with." || said.Capabilities.Tools == nil {
		t.Errorf("the bridge presents itself as %+v, %+v", said.ServerInfo, said)
	}
	if _, err := h.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: "2"}); err == nil {
		t.Error("a cursor that nobody gave is understood")
	}
	if err := h.leave(t); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
	s.expectFree(t)
}

// Results come as they are; what is only a value gets the content that hosts show.
func TestResults(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 1)
	h := overStdio(t.Context(), t, s.dial)
	for _, tt := range []struct {
		tool string
		args any
		want string
	}{
		{"blocks", nil, `{"_meta":{"k":"v"},"content":[{"text":"seen","type":"text"},{"data":"AAEC","mimeType":"image/png","type":"image"}],"structuredContent":{"x":1}}`},
		{"text", nil, `{"content":[{"text":"plain","type":"text"}]}`},
		{"nothing", nil, `{"content":[]}`},
		{"arguments", openenv.Object{"n": 5, "s": "é"}, `{"content":[{"text":"{\"n\":5,\"s\":\"é\"}","type":"text"}],"structuredContent":{"n":5,"s":"é"}}`},
		{"episode", nil, `{"content":[{"text":"{\"resets\":1,\"calls\":5}","type":"text"}],"structuredContent":{"calls":5,"resets":1}}`},
		{"blocks failed", nil, `{"content":[{"text":"no","type":"text"},{"text":"way","type":"text"}],"isError":true,"structuredContent":{"x":1}}`},
		{"fail", nil, `{"content":[{"text":"it broke","type":"text"}],"isError":true}`},
		{"badly", nil, `{"content":[{"text":"a is missing","type":"text"}],"isError":true}`},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			if got := asJSON(t, call(t, h.ClientSession, tt.tool, tt.args)); got != tt.want {
				t.Errorf("result\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	_, err := h.CallTool(t.Context(), &sdk.CallToolParams{Name: "nope"})
	if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.CodeInvalidParams || refused.Message != `unknown tool "nope"` {
		t.Errorf("unknown tool: %v, want the protocol's error", err)
	}
	if err := h.leave(t); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
}

// A host that cancels ends the environment's work.
func TestCancelReachesTheEnvironment(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 1)
	h := overStdio(t.Context(), t, s.dial)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := h.CallTool(ctx, &sdk.CallToolParams{Name: "wait"})
		answered <- err
	}()
	s.expectWait(t)
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("the host's call: %v", err)
	}
	select {
	case <-s.gone:
	case <-time.After(patience):
		t.Fatal("the environment goes on")
	}
	if err := h.leave(t); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
	s.expectFree(t)
}

// A lost episode is told before another takes its place.
func TestLostEpisode(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 1)
	h := overStdio(t.Context(), t, s.dial)
	call(t, h.ClientSession, "text", nil)
	if r := call(t, h.ClientSession, "crash", nil); !r.IsError || !strings.Contains(asJSON(t, r), "panicked") {
		t.Errorf("the call that ended the session: %s", asJSON(t, r))
	}
	r := call(t, h.ClientSession, "episode", nil)
	if text := asJSON(t, r); !r.IsError || !strings.Contains(text, "session was lost") || !strings.Contains(text, "next call starts a new episode") {
		t.Errorf("the call that found it lost: %s", text)
	}
	for _, want := range []string{`"calls":1`, `"calls":2`} {
		if r := call(t, h.ClientSession, "episode", nil); !strings.Contains(asJSON(t, r), want) || !strings.Contains(asJSON(t, r), `"resets":1`) {
			t.Errorf("afterwards: %s, want a new episode, reset once", asJSON(t, r))
		}
	}
	if err := h.leave(t); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
}

// A bridge that is told to end does not wait for a tool.
func TestContextEndsStdio(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	h := overStdio(ctx, t, s.dial)
	answered := make(chan error, 1)
	go func() {
		_, err := h.CallTool(t.Context(), &sdk.CallToolParams{Name: "wait"})
		answered <- err
	}()
	s.expectWait(t)
	cancel()
	if err := awaitEnd(t, h.bridge); err != nil {
		t.Errorf("the bridge ended with %v, want none", err)
	}
	if err := <-answered; err == nil {
		t.Error("the host's call was answered")
	}
	<-s.gone
	s.expectFree(t)
}

// What keeps a bridge from starting is its error, and nothing was said to the host.
func TestStdioDoesNotStart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(t *testing.T) (dial func() (*mcp.Client, error))
		is    error
	}{
		{"no client", func(*testing.T) func() (*mcp.Client, error) {
			return func() (*mcp.Client, error) { return nil, errNotDialled }
		}, errNotDialled},
		{"no room", func(t *testing.T) func() (*mcp.Client, error) {
			s := startToolbox(t, 1)
			other, err := s.dial()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { other.Close() })
			if err := other.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s.dial
		}, openenv.ErrCapacity},
		{"no tools", func(t *testing.T) func() (*mcp.Client, error) {
			s := startToolbox(t, 1)
			s.noTools = true
			return s.dial
		}, mcp.ErrNoTools},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			var out strings.Builder
			err := bridge.Stdio(t.Context(), strings.NewReader(""), &out, bridge.Config{Dial: tt.setup(t)})
			if !errors.Is(err, tt.is) || out.Len() > 0 {
				t.Errorf("Stdio = %v with %q written, want %v and nothing", err, out.String(), tt.is)
			}
		})
	}
}

// The unmodified Python server, on its only session: listed, called, closed, and again.
func TestPythonServer(t *testing.T) {
	leak.Check(t)
	peer := peerproc.Start(t, "--env", "mcp", "--max-sessions", "1")
	dial := func() (*mcp.Client, error) { return mcp.New(peer.URL()) }
	for range 3 {
		h := overStdio(t.Context(), t, dial)
		list, err := h.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 2 || list.Tools[0].Description != "Add two integers." || list.Tools[0].OutputSchema == nil || list.Tools[0].Meta["fastmcp"] == nil {
			t.Fatalf("tools %s, %v", asJSON(t, list), err)
		}
		const want = `{"_meta":{"fastmcp":{"wrap_result":true}},"content":[{"text":"7","type":"text"}],"structuredContent":{"result":7}}`
		if got := asJSON(t, call(t, h.ClientSession, "add", openenv.Object{"a": 2, "b": 5})); got != want {
			t.Errorf("result\n%s\nwant\n%s", got, want)
		}
		for tool, args := range map[string]openenv.Object{"fail": {"why": "no reason"}, "add": {"a": "no reason"}} {
			if r := call(t, h.ClientSession, tool, args); !r.IsError || !strings.Contains(asJSON(t, r), "no reason") {
				t.Errorf("%s: %s, want an error with its reason", tool, asJSON(t, r))
			}
		}
		if _, err := h.CallTool(t.Context(), &sdk.CallToolParams{Name: "nope"}); err == nil || !strings.Contains(err.Error(), `unknown tool "nope"`) {
			t.Errorf("unknown tool: %v", err)
		}
		if err := h.leave(t); err != nil {
			t.Errorf("the bridge ended with %v", err)
		}
	}
}

// house is a bridge over HTTP.
type house struct {
	url    string
	bridge <-chan error
	stop   context.CancelFunc
}

func overHTTP(t *testing.T, idle time.Duration, dial func() (*mcp.Client, error)) *house {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- bridge.HTTP(ctx, l, idle, bridge.Config{Dial: dial}, func() error { close(ready); return nil })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("the bridge ended with %v", err)
	}
	t.Cleanup(cancel)
	return &house{"http://" + l.Addr().String() + "/mcp", ended, cancel}
}

func (h *house) visit(t *testing.T) (*sdk.ClientSession, error) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "v1"}, nil)
	return client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: h.url, HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1}, nil)
}

// Each session of the protocol has an episode of its own, and gives its place back.
func TestSessionsOverHTTP(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 2)
	h := overHTTP(t, 0, s.dial)
	first, err := h.visit(t)
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.visit(t)
	if err != nil {
		t.Fatal(err)
	}
	call(t, first, "text", nil)
	if got := asJSON(t, call(t, second, "episode", nil)); !strings.Contains(got, `"calls":1`) {
		t.Errorf("the second session: %s, want an episode of its own", got)
	}
	if _, err := h.visit(t); err == nil || !strings.Contains(err.Error(), "CAPACITY_REACHED") {
		t.Errorf("a third session on a server of two: %v, want its refusal", err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	until(t, "the first session's place", func() bool { return s.srv.ActiveSessions() == 1 })
	third, err := h.visit(t)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := third.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 2 {
		t.Errorf("tools of the third session: %+v, %v", list, err)
	}
	h.stop()
	if err := awaitEnd(t, h.bridge); err != nil {
		t.Errorf("the bridge ended with %v, want none", err)
	}
	s.expectFree(t)
	second.Close()
	third.Close()
}

// A session that is closed, and a bridge that is told to end, do not wait for a tool.
func TestEndsOverHTTPInterrupt(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, h *house, s *sdk.ClientSession)
	}{
		// The SDK's own Close waits for the call.
		{"the host deletes its session", func(t *testing.T, h *house, s *sdk.ClientSession) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, h.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Mcp-Session-Id", s.ID())
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			res, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if res.Body.Close(); res.StatusCode != http.StatusNoContent {
				t.Errorf("DELETE: %s", res.Status)
			}
		}},
		{"the bridge ends", func(_ *testing.T, h *house, _ *sdk.ClientSession) { h.stop() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			s := startToolbox(t, 1)
			h := overHTTP(t, 0, s.dial)
			session, err := h.visit(t)
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() {
				_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "wait"})
				answered <- err
			}()
			s.expectWait(t)
			tt.end(t, h, session)
			select {
			case <-s.gone:
			case <-time.After(patience):
				t.Fatal("the environment goes on")
			}
			s.expectFree(t)
			h.stop()
			if err := awaitEnd(t, h.bridge); err != nil {
				t.Errorf("the bridge ended with %v, want none", err)
			}
			session.Close()
			if err := <-answered; err == nil {
				t.Error("the host's call was answered")
			}
		})
	}
}

func TestIdleSessionEnds(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 1)
	h := overHTTP(t, 50*time.Millisecond, s.dial)
	session, err := h.visit(t)
	if err != nil {
		t.Fatal(err)
	}
	s.expectFree(t)
	session.Close()
	h.stop()
	if err := awaitEnd(t, h.bridge); err != nil {
		t.Errorf("the bridge ended with %v, want none", err)
	}
}

// Requests that are none of a host's.
func TestForeignRequests(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 1)
	h := overHTTP(t, 0, s.dial)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for _, tt := range []struct {
		name, path, host, origin, body string
		status                         int
		text                           string
	}{
		{"a page of another origin", "/mcp", "", "https://example.org", hello, http.StatusForbidden, ""},
		{"another name for this machine", "/mcp", "example.org", "", hello, http.StatusForbidden, ""},
		{"another path", "/ws", "", "", hello, http.StatusNotFound, ""},
		{"a call before initialize", "/mcp", "", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text"}}`, http.StatusOK, "invalid during session initialization"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(h.url, "/mcp")+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if tt.origin != "" {
				req.Header.Set("Origin", tt.origin)
			}
			req.Host = tt.host
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			res, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != tt.status || !strings.Contains(string(body), tt.text) {
				t.Errorf("%s %q, %v, want %d and %q", res.Status, body, err, tt.status, tt.text)
			}
		})
	}
	if n := s.srv.ActiveSessions(); n != 0 {
		t.Errorf("%d sessions were opened for them", n)
	}
}

func TestHTTPDoesNotStart(t *testing.T) {
	leak.Check(t)
	s := startToolbox(t, 1)
	broken := errors.New("nobody to tell")
	for _, tt := range []struct {
		name    string
		noTools bool
		ready   error
		is      error
	}{
		{"no tools", true, nil, mcp.ErrNoTools},
		{"not announced", false, broken, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.noTools = tt.noTools
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			err = bridge.HTTP(t.Context(), l, 0, bridge.Config{Dial: s.dial}, func() error { return tt.ready })
			if !errors.Is(err, tt.is) {
				t.Errorf("HTTP = %v, want %v", err, tt.is)
			}
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener is still open: %v", err)
			}
			s.expectFree(t)
		})
	}
}
