package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// guarded lets only requests with the right token through, on every route.
type guarded struct {
	next http.Handler

	mu       sync.Mutex
	token    string
	requests []string
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.requests = append(g.requests, r.URL.Path+" "+r.Header.Get("Authorization"))
	ok := r.Header.Get("Authorization") == "Bearer "+g.token
	g.mu.Unlock()
	if !ok {
		http.Error(w, `{"detail":"who are you"}`, http.StatusUnauthorized)
		return
	}
	g.next.ServeHTTP(w, r)
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// Report: private endpoint answers 401. The token is sent on the upgrade, on every
// information call and by child sessions.
func TestHeadersOnEveryRequest(t *testing.T) {
	calls := map[string]func(ctx context.Context, env *openenv.GenericClient) error{
		"Reset":      func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.Reset(ctx); return err },
		"NewSession": func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.NewSession(ctx); return err },
		"Health":     func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.Health(ctx); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := &guarded{next: openenvtest.Script(t, answer), token: "t1"}
				srv := openenvtest.Serve(t, shutdown{g, g.next.(*openenvtest.Scripted)})
				env := generic(t, srv.URL(), srv.Option())
				refused := as[*openenv.ConnectError](t, "without", call(t.Context(), env))
				if refused.Status != 401 || !strings.Contains(refused.Error(), "401") {
					t.Errorf("%+v", refused)
				}
				if err := call(t.Context(), generic(t, srv.URL(), srv.Option(), openenv.WithHeaders(bearer("t1")))); err != nil {
					t.Errorf("with: %v", err)
				}
			})
		})
	}
}

// shutdown lets a wrapped script be shut down.
type shutdown struct {
	http.Handler
	*openenvtest.Scripted
}

func (s shutdown) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.Handler.ServeHTTP(w, r) }

// WithHeaders copies what it is given.
func TestHeadersAreCopied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := &guarded{next: openenvtest.Script(t, answer), token: "t1"}
		srv := openenvtest.Serve(t, shutdown{g, g.next.(*openenvtest.Scripted)})
		h := bearer("t1")
		env := generic(t, srv.URL(), srv.Option(), openenv.WithHeaders(h))
		h.Set("Authorization", "Bearer changed")
		mustReset(t, env)
	})
}

// Report: reconnecting fails for ever after a token rotates. The function is called
// at each dial and each call, and wins over fixed headers.
func TestHeaderFuncIsAskedEachTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := &guarded{next: openenvtest.Script(t, answer), token: "t1"}
		srv := openenvtest.Serve(t, shutdown{g, g.next.(*openenvtest.Scripted)})
		calls := 0
		env := generic(t, srv.URL(), srv.Option(), openenv.WithHeaders(bearer("fixed")), openenv.WithHeaderFunc(func(context.Context) (http.Header, error) {
			calls++
			return bearer(fmt.Sprint("t", calls)), nil
		}))
		rotate := func(token string) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.token = token
		}
		mustReset(t, env)
		rotate("t2")
		if err := env.Disconnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustReset(t, env)
		rotate("t3")
		if _, err := env.Health(t.Context()); err != nil {
			t.Error(err)
		}
		rotate("t4")
		if _, err := env.NewSession(t.Context()); err != nil {
			t.Error(err)
		}
		if want := "[/ws Bearer t1 /ws Bearer t2 /health Bearer t3 /ws Bearer t4]"; fmt.Sprint(g.requests) != want {
			t.Errorf("%v, want %s", g.requests, want)
		}
	})
}

// A header function that fails or does not return.
func TestHeaderFuncFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, script := scripted(t, answer, openenv.WithHeaderFunc(func(context.Context) (http.Header, error) { return nil, errBoom }))
		_, err := env.Step(t.Context(), do(1))
		wantIs(t, "Step", err, errBoom)
		wantAs[*openenv.ConnectError](t, "Step", err)
		_, err = env.Health(t.Context())
		wantIs(t, "Health", err, errBoom)
		if script.Accepted() != 0 {
			t.Error("dialled without its headers")
		}
		slow, _ := scripted(t, answer, openenv.WithHeaderFunc(func(ctx context.Context) (http.Header, error) { <-ctx.Done(); return nil, ctx.Err() }))
		waiting := make(chan error, 1)
		go func() { waiting <- slow.Connect(t.Context()) }()
		_, err = slow.Step(within(t, time.Second), do(1))
		wantIs(t, "a caller", err, context.DeadlineExceeded)
		if err := slow.Close(); err != nil {
			t.Error(err)
		}
		wantIs(t, "the other", <-waiting, openenv.ErrClosed)
	})
}

// Secrets: a header's value, a query's value and a user's password are never in an
// error's text nor in the log.
func TestSecretsStaySecret(t *testing.T) {
	const secret = "hunter2"
	type arrangement struct {
		name string
		url  func(base string) string
		opts []openenv.Option
	}
	with := func(edit func(u *url.URL)) func(string) string {
		return func(base string) string {
			u, err := url.Parse(base)
			if err != nil {
				panic(err)
			}
			edit(u)
			return u.String()
		}
	}
	same := func(base string) string { return base }
	ways := []arrangement{
		{"header", same, []openenv.Option{openenv.WithHeaders(bearer(secret))}},
		{"header function", same, []openenv.Option{openenv.WithHeaderFunc(func(context.Context) (http.Header, error) { return bearer(secret), nil })}},
		{"bad header", same, []openenv.Option{openenv.WithHeaders(http.Header{"X-Token": {secret + "\n"}})}},
		{"query", with(func(u *url.URL) { u.RawQuery = "token=" + secret }), nil},
		{"password", with(func(u *url.URL) { u.User = url.UserPassword("me", secret) }), nil},
		{"user", with(func(u *url.URL) { u.User = url.User(secret) }), nil},
	}
	servers := map[string]http.Handler{
		"401":       &statuses{status: 401},
		"307":       &statuses{status: 307, header: http.Header{"Location": {"http://elsewhere/?token=" + secret}}},
		"200":       &statuses{status: 200, body: "<html>"},
		"capacity":  nil,
		"abort":     nil,
		"malformed": nil,
		"timeout":   nil,
		"nobody":    nil,
	}
	for server, handler := range servers {
		for _, way := range ways {
			t.Run(server+"/"+way.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					h := handler
					if h == nil {
						h = openenvtest.Script(t, func(p *openenvtest.Peer) {
							switch server {
							case "capacity":
								p.Error("CAPACITY_REACHED", "full")
							case "malformed":
								p.Next()
								p.Send("?")
							case "timeout":
								p.Silence()
							default:
								p.Next()
								p.Abort()
							}
						})
					}
					srv := openenvtest.Serve(t, h)
					var log logBuffer
					opts := append([]openenv.Option{srv.Option(), openenv.WithLogger(log.logger(true)), openenv.WithMessageTimeout(time.Second),
						openenv.WithConnectRetry(openenv.Retry{Attempts: 2, Base: time.Second})}, way.opts...)
					if server == "nobody" {
						opts = append(opts, openenv.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
							return nil, &url.Error{Op: "Get", URL: r.URL.String(), Err: errors.New("connection refused")}
						})}))
					}
					env := generic(t, way.url(srv.URL()), opts...)
					var errs []error
					note := func(_ any, err error) {
						if err != nil {
							errs = append(errs, err)
						}
					}
					note(env.Step(t.Context(), do(1)))
					note(env.Step(t.Context(), do(1)))
					note(env.State(t.Context()))
					note(env.Reset(t.Context()))
					note(nil, env.Connect(t.Context()))
					note(env.NewSession(t.Context()))
					note(env.Health(t.Context()))
					note(env.Tasks(t.Context(), "e", "train"))
					note(nil, env.Close())
					note(env.Step(t.Context(), do(1)))
					if len(errs) < 5 {
						t.Errorf("only %d errors", len(errs))
					}
					for _, err := range errs {
						if strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) {
							t.Errorf("error tells the secret: %v", err)
						}
						checkText(t, err)
					}
					if strings.Contains(log.String(), secret) {
						t.Errorf("log tells the secret:\n%s", log.String())
					}
					if strings.Contains(env.BaseURL(), secret) {
						t.Errorf("BaseURL tells the secret: %s", env.BaseURL())
					}
				})
			})
		}
	}
	for _, bad := range []string{"ftp://me:" + secret + "@h", "http://me:" + secret + "@", "http://me:" + secret + "@h:port", "http://h/?token=" + secret + "#x", "http://me:" + secret + "%zz@h"} {
		if _, err := openenv.New(openenv.Generic, bad); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("New: %v", err)
		}
	}
}

// checkText wants what every error's text has: lower case, operation and address.
func checkText(t *testing.T, err error) {
	t.Helper()
	op, _, ok := strings.Cut(err.Error(), "://memnet.test:80")
	if !ok || strings.ToLower(op) != op {
		t.Errorf("text is not an operation and an address in lower case: %v", err)
	}
}
