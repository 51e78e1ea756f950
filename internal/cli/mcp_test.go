//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/internal/testenv"
)

// mcpCommand is oenv mcp with args, as a host starts it.
func mcpCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	oenv, err := exec.LookPath("oenv")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(oenv, append([]string{"mcp"}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE="+noExitDelay)
	return cmd
}

// host connects the official Go SDK's client.
func host(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// wantTools checks what a host sees of the Python server's tools.
func wantTools(t *testing.T, s *sdk.ClientSession) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list, err := s.ListTools(ctx, nil)
	if err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "add" || list.Tools[0].OutputSchema == nil {
		t.Fatalf("tools %+v, %v", list, err)
	}
	added, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "add", Arguments: map[string]any{"a": 2, "b": 5}})
	if err != nil || added.IsError || string(compact(added.StructuredContent)) != `{"result":7}` {
		t.Errorf("add: %+v, %v", added, err)
	}
	failed, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "fail", Arguments: map[string]any{"why": "no reason"}})
	if err != nil || !failed.IsError || !strings.Contains(failed.Content[0].(*sdk.TextContent).Text, "no reason") {
		t.Errorf("fail: %+v, %v", failed, err)
	}
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "nope"}); err == nil || !strings.Contains(err.Error(), `unknown tool "nope"`) {
		t.Errorf("nope: %v", err)
	}
}

// The official clients get the tools of the unmodified Python server. It has one
// session, so that a bridge that kept it would fail the next.
func TestHostsOfPythonServer(t *testing.T) {
	leak.Check(t)
	peer := peerproc.Start(t, "--env", "mcp", "--max-sessions", "1")

	t.Run("Go over stdio", func(t *testing.T) {
		cmd := mcpCommand(t, peer.URL())
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		s := host(t, &sdk.CommandTransport{Command: cmd})
		wantTools(t, s)
		if err := s.Close(); err != nil || stderr.Len() > 0 {
			t.Errorf("Close: %v, with %q on standard error", err, stderr.String())
		}
	})
	t.Run("Python over stdio", func(t *testing.T) {
		wantSeen(t, testenv.Python(t), filepath.Join("peer", "mcp_host.py"), mcpCommand(t, peer.URL()))
	})
	t.Run("TypeScript over stdio", func(t *testing.T) {
		wantSeen(t, testenv.Node(t), filepath.Join("node", "stdio.mjs"), mcpCommand(t, peer.URL()))
	})
	t.Run("Go over HTTP", func(t *testing.T) {
		s, err := launch(mcpCommand(t, peer.URL(), "--listen", ":0"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.kill()
		for range 3 {
			session := host(t, &sdk.StreamableClientTransport{Endpoint: s.url, MaxRetries: -1})
			wantTools(t, session)
			if err := session.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		wantEnd(t, s, syscall.SIGTERM)
	})
}

// wantSeen runs a client of another language, which starts server, and checks what it
// saw of the Python server's tools.
func wantSeen(t *testing.T, program, script string, server *exec.Cmd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{filepath.Join(testenv.Root(t), "interop", script)}, server.Args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%s: %v\n%s", script, err, exit.Stderr)
	}
	const want = `{"added":{"result":7},"content":["7"],"failed":true,"reason":"Error calling tool 'fail': no reason",` +
		`"schema":{"additionalProperties":false,"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"type":"object"},` +
		`"server":"ToolEnv","tools":["add","fail"],"unknown":-32602}`
	var seen any
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("%s: %q: %v", script, out, err)
	}
	if got := string(compact(seen)); got != want {
		t.Errorf("%s saw\n%s\nwant\n%s", script, got, want)
	}
}

// wantEnd ends a server by a signal, which is its normal end.
func wantEnd(t *testing.T, s *launched, sig syscall.Signal) {
	t.Helper()
	if err := s.signal(sig); err != nil {
		t.Fatal(err)
	}
	if code, err := s.ends(); err != nil || code != exitOK || s.stderr.Len() > 0 {
		t.Errorf("exit code %d, %v, with %q on standard error, want 0 and nothing", code, err, s.stderr.String())
	}
}

// A signal ends a call and closes the environment's session, and so does the end of
// the host.
func TestSignalsEndMCP(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			leak.Check(t)
			url, srv := startTools(t, 1)
			cmd := mcpCommand(t, url)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`,
			} {
				if _, err := stdin.Write([]byte(line + "\n")); err != nil {
					t.Fatal(err)
				}
			}
			if err := json.NewDecoder(stdout).Decode(new(any)); err != nil {
				t.Fatalf("the answer to initialize: %v", err)
			}
			until(t, "the session", func() bool { return srv.ActiveSessions() == 1 })
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("oenv mcp ended with %v, want 0", err)
			}
			until(t, "a free slot", func() bool { return srv.ActiveSessions() == 0 })
		})
	}
}
