package netx_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/memnet"
	"github.com/openenv-go/openenv/internal/netx"
)

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func parse(t *testing.T, raw string) *netx.Base {
	t.Helper()
	b, err := netx.ParseBase(raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHealth(t *testing.T) {
	leak.Check(t)
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   string // part of the error, "" when healthy
	}{
		{"healthy", 200, `{"status":"healthy"}`, ""},
		{"healthy and more", 200, ` {"status": "healthy", "version": "1"}` + "\n", ""},
		{"an HTML page", 200, `<html><body>healthy</body></html>`, "not the health"},
		{"no body", 200, ``, "not the health"},
		{"a list", 200, `["healthy"]`, "not the health"},
		{"another status", 200, `{"status":"starting"}`, `status is "starting"`},
		{"no status", 200, `{}`, `status is ""`},
		{"not available", 503, `{"status":"healthy"}`, "HTTP status 503"},
		{"created", 201, `{"status":"healthy"}`, "HTTP status 201"},
		{"unauthorized", 401, ``, "HTTP status 401"},
		{"a body without end", 200, `{"status":"healthy","x":"` + strings.Repeat("x", 100<<10) + `"}`, "not the health"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(answer(test.status, test.body))
			defer server.Close()
			err := netx.Health(t.Context(), server.Client(), parse(t, server.URL), nil)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestHealthRequest(t *testing.T) {
	leak.Check(t)
	var got atomic.Pointer[http.Request]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r)
		_, _ = io.WriteString(w, `{"status":"healthy"}`)
	}))
	defer server.Close()
	header := http.Header{"Authorization": {"Bearer t"}, "X-Two": {"a", "b"}}
	if err := netx.Health(t.Context(), server.Client(), parse(t, server.URL+"/p/ws?x=1"), header); err != nil {
		t.Fatal(err)
	}
	r := got.Load()
	if r.Method != http.MethodGet || r.URL.String() != "/p/health?x=1" || r.Header.Get("Authorization") != "Bearer t" || len(r.Header["X-Two"]) != 2 {
		t.Errorf("got %s %s %v", r.Method, r.URL, r.Header)
	}
}

func TestHealthErrorsKeepSecrets(t *testing.T) {
	leak.Check(t)
	server := httptest.NewServer(nil)
	server.Close() // nobody listens there any more
	base := parse(t, strings.Replace(server.URL, "http://", "http://user:s3cret@", 1)+"?token=s3cret")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for name, err := range map[string]error{
		"one poll":   netx.Health(ctx, server.Client(), base, nil),
		"many polls": netx.PollHealth(ctx, server.Client(), base, nil, nil),
	} {
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: got %v, want the reason without the secret", name, err)
		}
	}
}

// serveMemory runs h on a network in memory; it works in a bubble.
func serveMemory(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	l := memnet.Listen()
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	transport := l.Transport()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-done
	})
	return &http.Client{Transport: transport}
}

const memory = "http://memnet.test"

func TestPollHealthWaitsForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		start := time.Now()
		client := serveMemory(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch passed := time.Since(start); {
			case passed < time.Second:
				w.WriteHeader(http.StatusServiceUnavailable)
			case passed < 2*time.Second:
				_, _ = io.WriteString(w, "<html>starting</html>")
			default:
				_, _ = io.WriteString(w, `{"status":"healthy"}`)
			}
		}))
		if err := netx.PollHealth(t.Context(), client, parse(t, memory), nil, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if passed := time.Since(start); passed < 2*time.Second || passed > 2500*time.Millisecond {
			t.Errorf("ready after %v, want at the first poll after 2s", passed)
		}
	})
}

func TestPollHealthIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		var polls atomic.Int32
		start := time.Now()
		var first time.Duration
		client := serveMemory(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if polls.Add(1) == 2 {
				first = time.Since(start)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := netx.PollHealth(ctx, client, parse(t, memory), nil, nil)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "HTTP status 503") || !strings.Contains(err.Error(), memory) {
			t.Errorf("got %v, want the deadline, the server and what it last said", err)
		}
		if n := polls.Load(); n < 15 || n >= 50 {
			t.Errorf("%d polls in 10s, want less than 50 and not too few", n)
		}
		if first != 20*time.Millisecond {
			t.Errorf("second poll after %v: a server that starts fast should not wait", first)
		}
		if passed := time.Since(start); passed != 10*time.Second {
			t.Errorf("returned after %v", passed)
		}
	})
}

func TestPollHealthGivesTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		client := serveMemory(t, answer(http.StatusServiceUnavailable, ""))
		limit := errors.New("not started within a minute")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, limit)
		defer cancel()
		if err := netx.PollHealth(ctx, client, parse(t, memory), nil, nil); !errors.Is(err, limit) {
			t.Errorf("got %v, want %v", err, limit)
		}
	})
}

func TestPollHealthEndsWhenTheServerHasDied(t *testing.T) {
	dead := errors.New("exit status 3")
	for name, h := range map[string]http.HandlerFunc{
		"while it refuses":      answer(http.StatusServiceUnavailable, ""),
		"while nothing answers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				client := serveMemory(t, h)
				start := time.Now()
				err := netx.PollHealth(t.Context(), client, parse(t, memory), nil, func() error {
					if time.Since(start) >= 100*time.Millisecond {
						return dead
					}
					return nil
				})
				if !errors.Is(err, dead) {
					t.Errorf("got %v, want %v", err, dead)
				}
				if passed := time.Since(start); passed > 10*time.Second {
					t.Errorf("noticed after %v", passed)
				}
			})
		})
	}
}

// A server that is up at last is ready, even if nobody asks whether it lives.
func TestHealthyBeatsDead(t *testing.T) {
	leak.Check(t)
	server := httptest.NewServer(answer(200, `{"status":"healthy"}`))
	defer server.Close()
	err := netx.PollHealth(t.Context(), server.Client(), parse(t, server.URL), nil, func() error { return errors.New("dead") })
	if err != nil {
		t.Error(err)
	}
}

// A poll that the deadline cuts off says nothing; the one before it does.
func TestPollHealthKeepsTheLastReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		var polls atomic.Int32
		client := serveMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if polls.Add(1) > 3 {
				<-r.Context().Done()
				return
			}
			w.WriteHeader(http.StatusBadGateway)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := netx.PollHealth(ctx, client, parse(t, memory), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "HTTP status 502") {
			t.Errorf("got %v, want the status of the last answer", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		err = netx.PollHealth(ctx, client, parse(t, memory), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "no answer within 5s") {
			t.Errorf("got %v, want that nothing answers", err)
		}
	})
}
