package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		f(t)
	})
}

// rpcServer is a server whose answers to JSON-RPC are a function: the members result or
// error of the response, or a status. Its sockets are held open.
type rpcServer struct {
	*openenvtest.Scripted

	answer func(method string, params openenv.Object) (status int, members string)

	mu      sync.Mutex
	methods []string
	ids     []string
	frames  []string // on sockets
	made    int
}

func serveRPC(t *testing.T, answer func(method string, params openenv.Object) (int, string)) (*rpcServer, *openenvtest.Server) {
	s := &rpcServer{answer: answer}
	s.Scripted = openenvtest.Script(t, func(p *openenvtest.Peer) {
		for {
			f, ok := p.Next()
			if !ok || f.Type == "close" {
				return
			}
			s.mu.Lock()
			s.frames = append(s.frames, f.Type)
			s.mu.Unlock()
			switch f.Type {
			case "state":
				p.State(`{"episode_id":"e","step_count":0}`)
			default:
				p.Observation(`{}`)
			}
		}
	})
	return s, openenvtest.Serve(t, s)
}

func (s *rpcServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/mcp" {
		s.Scripted.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	var req struct {
		ID     uint64         `json:"id"`
		Method string         `json:"method"`
		Params openenv.Object `json:"params"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, members := s.respond(req.Method, req.Params)
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,%s}`, req.ID, members)
}

func (s *rpcServer) respond(method string, params openenv.Object) (int, string) {
	s.mu.Lock()
	s.methods = append(s.methods, method)
	id, _ := params["session_id"].(string)
	s.ids = append(s.ids, id)
	if method == "openenv/session/create" {
		s.made++
	}
	made := s.made
	s.mu.Unlock()
	switch method {
	case "openenv/session/create":
		return 200, fmt.Sprintf(`"result":{"session_id":"s%d"}`, made)
	case "openenv/session/close":
		return 200, `"result":{"closed":true}`
	}
	return s.answer(method, params)
}

// seen are the calls that were made, without those that make and end sessions.
func (s *rpcServer) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.methods, " ")
}

const oneTool = `"result":{"tools":[{"name":"inc","inputSchema":{"type":"object"}}]}`

// A tool list that failed is an error, not an empty list, and is asked for again.
func TestFailedListIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answers := []func() (int, string){
			func() (int, string) { return 500, `"detail":"down"` },
			func() (int, string) {
				return 200, `"error":{"code":-32603,"message":"Environment does not support MCP"}`
			},
			func() (int, string) { return 200, `"result":{"tools":7}` },
			func() (int, string) { return 200, `"result":{"tools":[{"description":"nameless"}]}` },
			func() (int, string) { return 200, oneTool },
		}
		n := 0
		_, srv := serveRPC(t, func(string, openenv.Object) (int, string) {
			n++
			if n > len(answers) {
				return 500, `"detail":"down again"`
			}
			return answers[n-1]()
		})
		c := newClient(t, srv.URL(), srv.Option())
		_, err := c.ListTools(t.Context())
		if failed := wantKind(t, err, mcp.KindTransport); !strings.Contains(failed.Message, "500") {
			t.Errorf("%+v", failed)
		}
		if has, err := c.HasTool(t.Context(), "inc"); has || !errors.Is(err, mcp.ErrNoTools) {
			t.Errorf("%v, %v", has, err)
		}
		_, err = c.ListTools(t.Context())
		_ = wantKind(t, err, mcp.KindTransport)
		_, err = c.GetTool(t.Context(), "inc")
		_ = wantKind(t, err, mcp.KindTransport)
		for range 3 {
			tools, err := c.ListTools(t.Context())
			if err != nil || len(tools) != 1 {
				t.Fatalf("%v, %v", tools, err)
			}
			tools[0] = nil // the caller's own slice
		}
		if n != len(answers) {
			t.Errorf("the server was asked %d times, want %d", n, len(answers))
		}
		if _, err := c.RefreshTools(t.Context()); err == nil {
			t.Error("no sixth answer, and no error")
		}
	})
}

// In production nothing but JSON-RPC is used for tools, and there is no reward. The one
// frame asks whether the server has tied the socket to the session.
func TestProductionUsesJSONRPCOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		t.Setenv("OPENENV_CLIENT_MODE", "simulation") // which is not looked at
		s, srv := serveRPC(t, func(method string, params openenv.Object) (int, string) {
			if method == "tools/list" {
				return 200, oneTool
			}
			if params["name"] != "inc" {
				return 200, `"error":{"code":-32603,"message":"Error calling tool 'x': no","data":null}`
			}
			return 200, `"result":{"content":[],"data":{"n":1},"is_error":false,"meta":null,"structured_content":{"n":1}}`
		})
		c := newClient(t, srv.URL(), srv.Option())
		if _, err := c.ListTools(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := c.CallToolResult(t.Context(), "inc", nil)
		if err != nil || string(r.Data) != `{"n":1}` || r.Reward != nil || r.Done {
			t.Fatalf("%+v, %v", r, err)
		}
		_, err = c.CallTool(t.Context(), "x", nil)
		if failed := wantKind(t, err, mcp.KindExecution); failed.Message != "Error calling tool 'x': no" {
			t.Errorf("%+v", failed)
		}
		if got := s.seen(); got != "openenv/session/create tools/list "+strings.Repeat(" tools/call", 2)[1:] || strings.Join(s.frames, " ") != "state" {
			t.Errorf("methods %s, frames %v", got, s.frames)
		}
		if s.Accepted() != 1 {
			t.Errorf("%d sockets, want the session's one", s.Accepted())
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if got := s.seen(); !strings.HasSuffix(got, "openenv/session/close") || strings.Join(s.ids, ",") != ",s1,s1,s1,s1" {
			t.Errorf("methods %s, ids %v", got, s.ids)
		}
	})
}

// Each way to fail has its kind.
func TestKindsOfFailure(t *testing.T) {
	rpcError := func(code int, message, data string) func() (int, string) {
		return func() (int, string) {
			return 200, fmt.Sprintf(`"error":{"code":%d,"message":%q,"data":%s}`, code, message, data)
		}
	}
	for _, tt := range []struct {
		name   string
		answer func() (int, string)
		want   mcp.Kind
		is     error
	}{
		{"the server says the kind", rpcError(-32603, "Unknown tool: but no", `{"error_type":"execution_error"}`), mcp.KindExecution, nil},
		{"unknown tool", rpcError(-32603, "Unknown tool: 'x'", "null"), mcp.KindToolNotFound, nil},
		{"unknown tool of a bare server", rpcError(-32602, "Tool not found: x", "null"), mcp.KindToolNotFound, nil},
		{"wrong arguments", rpcError(-32603, "1 validation error for call[x]", "null"), mcp.KindInvalidArgs, nil},
		{"wrong parameters", rpcError(-32602, "Missing 'name' in params", "null"), mcp.KindInvalidArgs, nil},
		{"a tool that failed", rpcError(-32603, "Error calling tool 'x': Unknown tool", "null"), mcp.KindExecution, nil},
		{"the server's limit", rpcError(-32603, "Tool 'x' timed out after 30 seconds", "null"), mcp.KindTimeout, nil},
		{"an error that says nothing", rpcError(-32603, "", "null"), mcp.KindExecution, nil},
		{"a result that is an error", func() (int, string) {
			return 200, `"result":{"content":[{"type":"text","text":"no"}],"is_error":true}`
		}, mcp.KindExecution, nil},
		{"status 502", func() (int, string) { return 502, `"detail":"gone"` }, mcp.KindTransport, nil},
		{"the client's limit", func() (int, string) { time.Sleep(10 * time.Second); return 200, oneTool }, mcp.KindTimeout, openenv.ErrMessageTimeout},
		{"not a response", func() (int, string) { return 200, `"x":1}{` }, mcp.KindTransport, nil},
		{"a forgotten session", rpcError(-32602, "Unknown session_id: s1", "null"), mcp.KindSessionMissing, openenv.ErrUnknownSession},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, srv := serveRPC(t, func(string, openenv.Object) (int, string) { return tt.answer() })
				c := newClient(t, srv.URL(), srv.Option(), openenv.WithMessageTimeout(5*time.Second))
				_, err := c.CallTool(t.Context(), "x", nil)
				failed := wantKind(t, err, tt.want)
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%v does not match %v", err, tt.is)
				}
				if failed.Tool != "x" || !strings.Contains(err.Error(), srv.URL()) {
					t.Errorf("%v", err)
				}
				time.Sleep(10 * time.Second) // a handler may still be at it
			})
		})
	}
}

// A call whose answer is cut off is in doubt; it is not made again.
func TestCallCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, srv := serveRPC(t, func(string, openenv.Object) (int, string) { panic(http.ErrAbortHandler) })
		c := newClient(t, srv.URL(), srv.Option())
		_, err := c.CallTool(t.Context(), "inc", nil)
		_ = wantKind(t, err, mcp.KindTransport)
		if doubt, ok := errors.AsType[*openenv.StepInDoubtError](err); !ok || doubt.Op != "tool call" {
			t.Errorf("%v", err)
		}
		if got := s.seen(); got != "openenv/session/create tools/call" {
			t.Errorf("methods %s", got)
		}
	})
}

// The caller's own ctx is the caller's affair: its error is not a tool's.
func TestCancelledCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		_, srv := serveRPC(t, func(string, openenv.Object) (int, string) { <-release; return 200, oneTool })
		c := newClient(t, srv.URL(), srv.Option())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.CallTool(ctx, "inc", nil)
		if _, ok := errors.AsType[*mcp.ToolError](err); ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		close(release)
	})
}

// A session that the server has forgotten is reported once; the next call makes a new
// one, unless there was an episode in it.
func TestSessionThatTheServerForgot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		forgotten := map[string]bool{}
		s, srv := serveRPC(t, func(_ string, params openenv.Object) (int, string) {
			if id, _ := params["session_id"].(string); forgotten[id] {
				return 200, fmt.Sprintf(`"error":{"code":-32602,"message":"Unknown session_id: %s","data":null}`, id)
			}
			return 200, `"result":{"content":[],"data":1}`
		})
		c := newClient(t, srv.URL(), srv.Option())
		if _, err := c.CallTool(t.Context(), "inc", nil); err != nil {
			t.Fatal(err)
		}
		forgotten["s1"] = true
		_, err := c.CallTool(t.Context(), "inc", nil)
		_ = wantKind(t, err, mcp.KindSessionMissing)
		if _, err := c.CallTool(t.Context(), "inc", nil); err != nil || c.SessionID() != "s2" {
			t.Fatalf("%v on %s", err, c.SessionID())
		}

		if _, err := c.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		forgotten["s2"] = true
		for range 2 {
			_, err = c.CallTool(t.Context(), "inc", nil)
			_ = wantKind(t, err, mcp.KindSessionMissing)
		}
		if _, err := c.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "inc", nil); err != nil || c.SessionID() != "s3" || s.made != 3 {
			t.Errorf("%v on %s", err, c.SessionID())
		}
	})
}

// A restarted server knows no sessions.
func TestRestartedPythonServer(t *testing.T) {
	leak.Check(t)
	peer := peerproc.Start(t, "--env", "mcp")
	c := newClient(t, peer.URL())
	if _, err := c.CallTool(t.Context(), "add", sum); err != nil {
		t.Fatal(err)
	}
	first := c.SessionID()
	peer.Kill()
	port := peer.URL()[strings.LastIndex(peer.URL(), ":")+1:]
	peerproc.Start(t, "--env", "mcp", "--port", port)
	_, err := c.CallTool(t.Context(), "add", sum)
	_ = wantKind(t, err, mcp.KindSessionMissing)
	if v, err := c.CallTool(t.Context(), "add", sum); err != nil || v != 7.0 || c.SessionID() == first {
		t.Errorf("%v, %v on %s after %s", v, err, c.SessionID(), first)
	}
}

// Every route of a private server gets the token, and none shows it.
func TestTokenReachesEveryRoute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, _ := serveRPC(t, func(string, openenv.Object) (int, string) { return 200, oneTool })
		guarded := openenvtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("Authorization") {
			case "Bearer hush":
				s.ServeHTTP(w, r)
			case "Bearer elsewhere":
				http.Redirect(w, r, "/login", http.StatusTemporaryRedirect)
			default:
				http.Error(w, "no", http.StatusUnauthorized)
			}
		}))
		bearer := func(token string) openenv.Option {
			return openenv.WithHeaders(http.Header{"Authorization": {"Bearer " + token}})
		}
		c := newClient(t, guarded.URL(), guarded.Option(), bearer("hush"))
		if _, err := c.Reset(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := c.Health(t.Context()); err != nil {
			t.Error(err)
		}
		if tools, err := c.ListTools(t.Context()); err != nil || len(tools) != 1 {
			t.Errorf("%v, %v", tools, err)
		}
		child, err := c.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := child.ListTools(t.Context()); err != nil {
			t.Error(err)
		}
		for token, status := range map[string]string{"wrong-secret": "401", "elsewhere": "307"} {
			c := newClient(t, guarded.URL(), guarded.Option(), bearer(token))
			_, err := c.ListTools(t.Context())
			_ = wantKind(t, err, mcp.KindTransport)
			if !strings.Contains(err.Error(), status) || strings.Contains(err.Error(), token) {
				t.Errorf("%s: %v", token, err)
			}
		}
	})
}

func TestOptionsOfAToolClient(t *testing.T) {
	for _, tt := range []struct {
		name, url string
		opts      []openenv.Option
		want      string
	}{
		{"a mode that is none", "http://h", []openenv.Option{openenv.WithMode("both")}, `mode "both"`},
		{"an address that is none", "http://h:port", nil, "port"},
		{"no address", "", nil, "WithProvider"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := mcp.New(tt.url, tt.opts...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// The verbs for tools obey the rule of the faces.
func TestToolVerbsHaveTwoFaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, srv := serveRPC(t, func(method string, _ openenv.Object) (int, string) {
			if method == "tools/list" {
				return 200, oneTool
			}
			return 200, `"result":{"content":[],"data":1}`
		})
		c := newClient(t, srv.URL(), srv.Option())
		args := openenv.Object{"n": 1}
		f := c.Async().CallTool("inc", args)
		args["n"] = func() {} // encoded already
		if v, err := f.Await(t.Context()); err != nil || v != 1.0 {
			t.Fatalf("%v, %v", v, err)
		}
		if has, err := c.Async().HasTool("inc").Await(t.Context()); err != nil || !has {
			t.Errorf("%v, %v", has, err)
		}
		if tool, err := c.Async().GetTool("inc").Await(t.Context()); err != nil || tool.Name != "inc" {
			t.Errorf("%v, %v", tool, err)
		}
		if _, err := c.Async().CallToolResult("inc", args).Await(t.Context()); err == nil {
			t.Error("arguments that cannot be encoded were called")
		}
		if _, err := c.Async().ListTools().Get(t.Context()); err != nil {
			t.Errorf("handed over: %v", err)
		}
		_, err := c.Async().CallTool("inc", nil).Await(t.Context())
		if _, locked := errors.AsType[*openenv.ExecModeError](err); !locked {
			t.Errorf("async after blocking: %v", err)
		}
	})
}

// An interceptor sees tool calls as it sees steps.
func TestInterceptorSeesToolCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, srv := serveRPC(t, func(string, openenv.Object) (int, string) { return 200, `"result":{"content":[],"data":1}` })
		var seen []string
		c := newClient(t, srv.URL(), srv.Option(), openenv.WithInterceptor(
			func(ctx context.Context, call *openenv.Call, next func(context.Context) error) error {
				err := next(ctx)
				seen = append(seen, call.Op, call.SessionID, string(call.Request), string(call.Reply))
				return err
			}))
		if _, err := c.CallTool(t.Context(), "inc", nil); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(seen, "\n")
		for _, want := range []string{"tool call", `"method":"tools/call"`, `"session_id":"s1"`, `"data":1`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is missing in\n%s", want, got)
			}
		}
	})
}
