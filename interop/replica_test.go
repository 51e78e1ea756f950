package interop

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envs/files"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/internal/relay"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

// balancer is a reverse proxy before several servers; choose picks one for a request.
type balancer struct {
	url     string
	servers []*url.URL
	turn    atomic.Int64
}

// replicaCookie is how a balancer with cookies ties a client to a server.
const replicaCookie = "replica"

func balance(t *testing.T, choose func(b *balancer, r *http.Request) int, servers ...string) *balancer {
	t.Helper()
	b := new(balancer)
	for _, s := range servers {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		b.servers = append(b.servers, u)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			n := choose(b, r.In)
			r.SetURL(b.servers[n])
			r.Out.Header.Set("X-Chosen", fmt.Sprint(n))
		},
		ModifyResponse: func(res *http.Response) error {
			res.Header.Add("Set-Cookie", replicaCookie+"="+res.Request.Header.Get("X-Chosen")+"; Path=/; HttpOnly")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		Transport:    transport,
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		transport.CloseIdleConnections()
	})
	b.url = front.URL
	return b
}

// The ways in which balancers choose.

func roundRobin(b *balancer, _ *http.Request) int { return int(b.turn.Add(1)) % len(b.servers) }

func byCookie(b *balancer, r *http.Request) int {
	if c, err := r.Cookie(replicaCookie); err == nil && c.Value != "" {
		return int(c.Value[0]-'0') % len(b.servers)
	}
	return roundRobin(b, r)
}

func byHash(key func(*http.Request) string) func(*balancer, *http.Request) int {
	return func(b *balancer, r *http.Request) int {
		k := key(r)
		if k == "" {
			return roundRobin(b, r)
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(k))
		return int(h.Sum32()>>8) % len(b.servers)
	}
}

var (
	byHeader    = byHash(func(r *http.Request) string { return r.Header.Get("X-Client") })
	bySessionID = byHash(func(r *http.Request) string { return r.URL.Query().Get("session_id") })
	bySource    = byHash(func(r *http.Request) string { host, _, _ := strings.Cut(r.RemoteAddr, ":"); return host })
)

// replicas starts two servers of ours.
func replicas(t *testing.T, start func(...envserver.Option) (*envserver.Server, error)) (urls []string, sessions func() int) {
	t.Helper()
	var servers []*envserver.Server
	for range 2 {
		srv, err := start(envserver.WithMaxSessions(64))
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, srv)
		urls = append(urls, openenvtest.ServeLoopback(t, srv).URL())
	}
	return urls, func() int { return servers[0].ActiveSessions() + servers[1].ActiveSessions() }
}

func echoReplicas(t *testing.T) (urls []string, sessions func() int) {
	t.Helper()
	return replicas(t, func(opts ...envserver.Option) (*envserver.Server, error) {
		return envserver.New(echo.Spec, echo.New, opts...)
	})
}

func echoClient(t *testing.T, url string, opts ...openenv.Option) *openenv.Client[echo.Action, echo.Observation, openenv.State] {
	t.Helper()
	c, err := openenv.New(echo.Spec, url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func jar(t *testing.T) openenv.Option {
	t.Helper()
	j, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return openenv.WithHTTPClient(&http.Client{Jar: j})
}

// A session made on one replica, whose socket reaches the other: named, and never another
// environment in its place.
func TestAttachOnTheWrongReplica(t *testing.T) {
	leak.Check(t)
	urls, sessions := echoReplicas(t)
	c := echoClient(t, balance(t, roundRobin, urls...).url, openenv.WithManagedSession())
	_, err := c.Reset(t.Context())
	wrong, ok := errors.AsType[*openenv.WrongReplicaError](err)
	if !ok || wrong.Made == wrong.Answered {
		t.Fatalf("Reset: %v, want a *WrongReplicaError", err)
	}
	if got := sessions(); got != 1 {
		t.Errorf("%d sessions, want the one that was made", got)
	}
	if _, err := c.Reset(t.Context()); err != nil {
		t.Errorf("the next try reaches the right one: %v", err)
	}
	if err := c.Close(); err != nil || sessions() != 0 {
		t.Errorf("Close: %v, %d sessions are left", err, sessions())
	}
}

// With WithResume it is tried until the right replica answers, at the beginning and after
// each loss.
func TestResumeFindsTheRightReplica(t *testing.T) {
	leak.Check(t)
	urls, sessions := echoReplicas(t)
	way := startRelay(t, balance(t, roundRobin, urls...).url, relay.None{})
	c := echoClient(t, "http://"+way.Addr(), openenv.WithResume(openenv.Resume{Backoff: 5 * time.Millisecond}))
	if _, err := c.Reset(t.Context(), openenv.EpisodeID("e")); err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		if _, err := c.Step(t.Context(), echo.Action{Message: "hi"}); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		way.Abort()
	}
	state, err := c.State(t.Context())
	if want := (openenv.State{EpisodeID: "e", StepCount: 6}); err != nil || state != want || sessions() != 1 {
		t.Errorf("State = %+v, %v, want %+v; %d sessions", state, err, want, sessions())
	}
	if err := c.Close(); err != nil || sessions() != 0 {
		t.Errorf("Close: %v, %d sessions are left", err, sessions())
	}
}

// Python servers have no identity. Their answer is the same as after a restart, and the
// error names both.
func TestAttachOnTheWrongPythonReplica(t *testing.T) {
	leak.Check(t)
	a, b := peerproc.Start(t, "--env", "echo", "--max-sessions", "8"), peerproc.Start(t, "--env", "echo", "--max-sessions", "8")
	url := balance(t, roundRobin, a.URL(), b.URL()).url
	for name, opt := range map[string]openenv.Option{
		"WithManagedSession": openenv.WithManagedSession(),
		"WithResume":         openenv.WithResume(openenv.Resume{Backoff: 5 * time.Millisecond}),
	} {
		c := echoClient(t, url, opt)
		_, err := c.Reset(t.Context())
		if !errors.Is(err, openenv.ErrUnknownSession) || !strings.Contains(err.Error(), "another server behind the same address answered") {
			t.Errorf("%s: Reset: %v", name, err)
		}
	}
}

// Calls over HTTP behind a balancer that knows no sessions: each works, or says that the
// way to its session is lost; none is answered by another environment.
func TestToolCallsOnReplicas(t *testing.T) {
	leak.Check(t)
	ours, _ := replicas(t, func(opts ...envserver.Option) (*envserver.Server, error) {
		return envserver.New(files.Spec, files.New, opts...)
	})
	for _, tt := range []struct {
		name   string
		choose func(*balancer, *http.Request) int
		opts   []openenv.Option
		all    bool // calls work
	}{
		{"round robin", roundRobin, nil, false},
		{"round robin, resumed", roundRobin, []openenv.Option{openenv.WithResume(openenv.Resume{Backoff: 5 * time.Millisecond})}, true},
		{"cookie", byCookie, []openenv.Option{jar(t)}, true},
		{"cookie without a jar", byCookie, nil, false},
		{"header", byHeader, []openenv.Option{openenv.WithHeaders(http.Header{"X-Client": {"17"}})}, true},
		{"source address", bySource, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := mcp.New(balance(t, tt.choose, ours...).url, tt.opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			worked := writeFiles(t, c, func(err error) bool {
				_, wrong := errors.AsType[*openenv.WrongReplicaError](err)
				return wrong
			})
			if tt.all != (worked == 10) {
				t.Errorf("%d of 10 calls worked", worked)
			}
		})
	}
}

// writeFiles makes 10 calls, each of which checks that those before it, and no others,
// were made to the same environment.
func writeFiles(t *testing.T, c *mcp.Client, named func(error) bool) (worked int) {
	t.Helper()
	for n := range 10 {
		_, err := c.CallTool(t.Context(), "write", map[string]any{"path": fmt.Sprint("f", n), "text": "x"})
		if err != nil {
			if !named(err) {
				t.Errorf("call %d: %v, which does not name the replica", n, err)
			}
			continue
		}
		worked++
		if list, err := c.CallTool(t.Context(), "list", nil); err == nil {
			entries, _ := list.(map[string]any)["entries"].([]any)
			if len(entries) != worked {
				t.Errorf("call %d: the environment has %d files, %d were written", n, len(entries), worked)
			}
		} else if !named(err) {
			t.Errorf("call %d: %v, which does not name the replica", n, err)
		}
	}
	return worked
}

// The same on Python servers, where a cookie, a header or the source address ties a client
// to a server, and nothing else does.
func TestToolCallsOnPythonReplicas(t *testing.T) {
	leak.Check(t)
	a, b := peerproc.Start(t, "--env", "mcp", "--max-sessions", "64"), peerproc.Start(t, "--env", "mcp", "--max-sessions", "64")
	for _, tt := range []struct {
		name   string
		choose func(*balancer, *http.Request) int
		opts   []openenv.Option
		all    bool
	}{
		{"round robin", roundRobin, nil, false},
		{"cookie", byCookie, []openenv.Option{jar(t)}, true},
		{"header", byHeader, []openenv.Option{openenv.WithHeaders(http.Header{"X-Client": {"17"}})}, true},
		{"source address", bySource, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := mcp.New(balance(t, tt.choose, a.URL(), b.URL()).url, tt.opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			worked := 0
			for n := range 10 {
				sum, err := c.CallTool(t.Context(), "add", map[string]any{"a": n, "b": 1})
				switch {
				case err == nil && fmt.Sprint(sum) == fmt.Sprint(n+1):
					worked++
				case !errors.Is(err, openenv.ErrUnknownSession):
					t.Errorf("call %d: %v, %v", n, sum, err)
				}
			}
			if tt.all != (worked == 10) {
				t.Errorf("%d of 10 calls worked", worked)
			}
		})
	}
}

// To hash the session's identifier does not bind a client: the server chooses it, after
// the balancer has chosen the server.
func TestHashOfTheSessionIDBindsNobody(t *testing.T) {
	leak.Check(t)
	urls, _ := echoReplicas(t)
	b := balance(t, bySessionID, urls...)
	right, wrong := 0, 0
	for range 40 {
		c := echoClient(t, b.url, openenv.WithManagedSession())
		_, err := c.Reset(t.Context())
		_, elsewhere := errors.AsType[*openenv.WrongReplicaError](err)
		switch {
		case err == nil:
			right++
		case elsewhere:
			wrong++
		default:
			t.Errorf("Reset: %v", err)
		}
	}
	if right == 0 || wrong == 0 {
		t.Errorf("%d sessions reached their server, %d did not; chance would be even", right, wrong)
	}
}

// A client with cookies keeps them for sockets, too, and its children share them.
func TestCookiesBindAWholeFamily(t *testing.T) {
	leak.Check(t)
	urls, sessions := echoReplicas(t)
	way := startRelay(t, balance(t, byCookie, urls...).url, relay.None{})
	c := echoClient(t, "http://"+way.Addr(), jar(t), openenv.WithResume(openenv.Resume{Attempts: 1}))
	if _, err := c.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	family := []*openenv.Client[echo.Action, echo.Observation, openenv.State]{c}
	for range 5 {
		child, err := c.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := child.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		family = append(family, child)
	}
	way.Abort()
	for _, child := range family {
		if _, err := child.Step(t.Context(), echo.Action{Message: "hi"}); err != nil {
			t.Errorf("Step after a loss: %v", err)
		}
	}
	if got := sessions(); got != 6 {
		t.Errorf("%d sessions", got)
	}
}
