package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
	"github.com/openenv-go/openenv/provider"
)

// Report: child sessions lose options. A child has every option of its parent.
func TestChildInheritsOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		headers := map[int]string{}
		intercepted := 0
		script := func(p *openenvtest.Peer) {
			mu.Lock()
			headers[p.Number()] = p.Request().Header.Get("X-Team")
			mu.Unlock()
			for {
				f, ok := p.Next()
				switch {
				case !ok || f.Type == "close":
					return
				case f.Type == "step" && strings.Contains(f.Text, "silence"):
					p.Silence()
				case f.Type == "step":
					p.Oversize(2000)
				default:
					respond(p, f)
				}
			}
		}
		env, _ := scripted(t, script,
			openenv.WithHeaders(http.Header{"X-Team": {"blue"}}),
			openenv.WithMessageTimeout(150*time.Millisecond),
			openenv.WithMaxMessageSize(1000),
			openenv.WithMode(openenv.ModeProduction),
			openenv.WithInterceptor(func(ctx context.Context, _ *openenv.Call, next func(context.Context) error) error {
				intercepted++
				return next(ctx)
			}))
		child, err := env.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		grandchild, err := child.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]*openenv.GenericClient{"child": child, "grandchild": grandchild} {
			if c.Mode() != openenv.ModeProduction || c.BaseURL() != env.BaseURL() {
				t.Errorf("%s: mode %v, URL %q", name, c.Mode(), c.BaseURL())
			}
			took := after(func() {
				_, err := c.Step(t.Context(), openenv.Object{"do": "silence"})
				wantIs(t, name, err, openenv.ErrMessageTimeout)
			})
			if took != 150*time.Millisecond {
				t.Errorf("%s timed out after %v", name, took)
			}
			mustReset(t, c)
			_, err := c.Step(t.Context(), do(1))
			wantAs[*openenv.MessageTooBigError](t, name, err)
		}
		if intercepted != 6 {
			t.Errorf("%d round trips intercepted", intercepted)
		}
		for n, team := range headers {
			if team != "blue" {
				t.Errorf("socket %d has header %q", n, team)
			}
		}
	})
}

// A child is closed with its parent, or before it; closing it spares the others.
func TestChildrenAndClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, script := scripted(t, answer)
		var children []*openenv.GenericClient
		for range 3 {
			child, err := env.NewSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
		}
		if err := children[0].Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := children[1].Step(t.Context(), do(1)); err != nil {
			t.Errorf("a sibling: %v", err)
		}
		mustReset(t, env)
		grandchild, err := children[1].NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Close(); err != nil {
			t.Fatal(err)
		}
		for i, c := range append(children, grandchild) {
			_, err := c.State(t.Context())
			wantIs(t, fmt.Sprint("child ", i), err, openenv.ErrClosed)
		}
		if script.Accepted() != 5 {
			t.Errorf("%d sockets", script.Accepted())
		}
	})
}

// A NewSession whose caller leaves: at once, and nothing of it stays.
func TestNewSessionWhoseCallerLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gone := make(chan struct{})
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			p.Silence()
			close(gone)
		})
		took := after(func() {
			_, err := env.NewSession(within(t, time.Second))
			wantIs(t, "NewSession", err, context.DeadlineExceeded)
		})
		if took != time.Second {
			t.Errorf("left after %v", took)
		}
		took = after(func() { <-gone })
		if took > 2*time.Second {
			t.Errorf("the socket went %v later", took)
		}
	})
}

// One-slot server: a refused child is no trouble for its parent.
func TestNewSessionRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, script := scripted(t, func(p *openenvtest.Peer) {
			if p.Number() > 1 {
				p.Send(`{"type":"error","data":{"message":"full","code":"CAPACITY_REACHED","active_sessions":1,"max_sessions":1}}`)
				return
			}
			answer(p)
		})
		mustReset(t, env)
		_, err := env.NewSession(t.Context())
		wantIs(t, "NewSession", err, openenv.ErrCapacity)
		if e := as[*openenv.ServerError](t, "NewSession", err); e.Details["max_sessions"] != 1.0 {
			t.Errorf("details %v", e.Details)
		}
		if _, err := env.Step(t.Context(), do(1)); err != nil || script.Accepted() != 2 {
			t.Errorf("%v, %d sockets", err, script.Accepted())
		}
	})
}

// replicated is a provider of several servers in memory.
type replicated struct {
	fakeProvider
	hosts     map[string]*replicaServer
	transport http.RoundTripper

	mu    sync.Mutex
	urls  []string
	asked int
}

// replicaServer has a capacity; negative is a server that cannot be reached.
type replicaServer struct {
	mu                 sync.Mutex
	capacity, sessions int
}

func (r *replicaServer) play(p *openenvtest.Peer) {
	r.mu.Lock()
	full := r.sessions >= r.capacity
	if !full {
		r.sessions++
	}
	r.mu.Unlock()
	if full {
		p.Error("CAPACITY_REACHED", "full")
		return
	}
	answer(p)
	r.mu.Lock()
	r.sessions--
	r.mu.Unlock()
}

func (r *replicated) Endpoints(context.Context) (provider.Endpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return provider.Endpoint{URLs: r.urls}, nil
}

func (r *replicated) load() string {
	var parts []string
	for _, name := range []string{"a", "b", "c"} {
		h := r.hosts[name]
		h.mu.Lock()
		parts = append(parts, fmt.Sprint(h.sessions))
		h.mu.Unlock()
	}
	return strings.Join(parts, " ")
}

// newReplicated serves the hosts a, b and c with these capacities.
func newReplicated(t *testing.T, a, b, c int) *replicated {
	t.Helper()
	r := &replicated{hosts: map[string]*replicaServer{}}
	clients := map[string]*openenvtest.Server{}
	for name, capacity := range map[string]int{"a": a, "b": b, "c": c} {
		h := &replicaServer{capacity: capacity}
		r.hosts[name] = h
		clients[name] = openenvtest.Serve(t, openenvtest.Script(t, h.play))
	}
	for _, name := range []string{"a", "b", "c"} {
		r.urls = append(r.urls, "http://"+name)
	}
	r.endpoint.URLs = r.urls
	r.transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		host := req.URL.Hostname()
		if r.hosts[host].capacity < 0 {
			return nil, errors.New("no route to host")
		}
		return clients[host].HTTPClient().Transport.RoundTrip(req)
	})
	return r
}

// client is a client of the replicas whose provider is p.
func (r *replicated) client(t *testing.T, p provider.Provider) *openenv.GenericClient {
	t.Helper()
	return generic(t, "", openenv.WithProvider(p), openenv.WithHTTPClient(&http.Client{Transport: r.transport}))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// New sessions go to the replica with the fewest; a refused one tries the next, as
// does one that cannot reach its replica.
func TestReplicas(t *testing.T) {
	for _, tt := range []struct {
		name     string
		capacity [3]int
		sessions int
		load     string
		refused  int
	}{
		{"least loaded", [3]int{10, 10, 10}, 6, "2 2 2", 0},
		{"one is full", [3]int{10, 1, 10}, 7, "3 1 3", 0},
		{"all are full", [3]int{1, 1, 1}, 5, "1 1 1", 2},
		{"one is down", [3]int{10, -1, 10}, 4, "2 0 2", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newReplicated(t, tt.capacity[0], tt.capacity[1], tt.capacity[2])
				env := r.client(t, &r.fakeProvider)
				refused := 0
				var sessions []*openenv.GenericClient
				for range tt.sessions {
					child, err := env.NewSession(t.Context())
					if errors.Is(err, openenv.ErrCapacity) {
						refused++
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					sessions = append(sessions, child)
				}
				if r.load() != tt.load || refused != tt.refused {
					t.Errorf("load %s, %d refused; want %s, %d", r.load(), refused, tt.load, tt.refused)
				}
				// They stay there.
				for _, s := range sessions {
					before := s.BaseURL()
					if err := s.Disconnect(t.Context()); err != nil {
						t.Fatal(err)
					}
					mustReset(t, s)
					if s.BaseURL() != before {
						t.Errorf("moved from %s to %s", before, s.BaseURL())
					}
				}
				synctest.Wait()
				if r.load() != tt.load {
					t.Errorf("load %s after reconnecting", r.load())
				}
			})
		})
	}
}

// A verb that dials implicitly moves on from a full replica, too, and its request is
// sent once.
func TestReplicaRefusesAnImplicitDial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newReplicated(t, 0, 0, 1)
		env := r.client(t, &r.fakeProvider)
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Fatal(err)
		}
		if r.load() != "0 0 1" || env.BaseURL() != "http://c" {
			t.Errorf("load %s, URL %s", r.load(), env.BaseURL())
		}
		// What was tried is forgotten with the success: the next time all are tried again.
		if err := env.Disconnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.hosts["c"].capacity, r.hosts["a"].capacity = 0, 1
		mustReset(t, env)
		if env.BaseURL() != "http://a" {
			t.Errorf("URL %s", env.BaseURL())
		}
	})
}

// A provider whose replicas change is asked at a new session, at most once a second,
// and after a refusal.
func TestReplicasThatChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newReplicated(t, 10, 10, 10)
		r.urls, r.endpoint.URLs = []string{"http://a"}, []string{"http://a"}
		env := r.client(t, r)
		session := func(want string) {
			t.Helper()
			child, err := env.NewSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if child.BaseURL() != want {
				t.Errorf("session on %s, want %s", child.BaseURL(), want)
			}
		}
		session("http://a")
		r.urls = []string{"http://a", "http://b"}
		session("http://a") // known for less than a second
		if r.asked != 0 {
			t.Errorf("asked %d times", r.asked)
		}
		time.Sleep(time.Second)
		session("http://b")
		session("http://b")
		if r.asked != 1 {
			t.Errorf("asked %d times", r.asked)
		}
		time.Sleep(time.Second)
		r.urls = []string{"http://c"} // a and b take no new sessions
		session("http://c")
		// Full: a refusal is a reason to ask.
		r.hosts["c"].mu.Lock()
		r.hosts["c"].capacity = 1
		r.hosts["c"].mu.Unlock()
		r.urls = []string{"http://c", "http://a"}
		asked := r.asked
		session("http://a")
		if r.asked != asked+1 {
			t.Errorf("asked %d times after a refusal", r.asked-asked)
		}
		r.hosts["c"].mu.Lock()
		r.hosts["c"].capacity = 10
		r.hosts["c"].mu.Unlock()
		for range 20 {
			mustReset(t, env)
		}
		if r.asked != asked+1 {
			t.Errorf("asked %d times by verbs", r.asked-asked-1)
		}
	})
}

// Information calls, sessions and Connect take no place in the queue.
func TestFreeCallsTakeNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			if p.Number() == 1 {
				reply(p)
				p.Silence()
			}
			answer(p)
		})
		mustReset(t, env)
		waiting := make(chan error, 1)
		go func() { _, err := env.Step(t.Context(), do(1)); waiting <- err }()
		synctest.Wait()
		took := after(func() {
			if _, err := env.Health(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := env.NewSession(t.Context()); err != nil {
				t.Error(err)
			}
			if err := env.Connect(t.Context()); err != nil {
				t.Error(err)
			}
			if err := env.Disconnect(t.Context()); err != nil {
				t.Error(err)
			}
		})
		isLost(t, <-waiting)
		if took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}
