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

var errBoom = errors.New("boom")

// Report: the container stays when the readiness wait fails. Whatever step of a
// bootstrap fails, what was started is stopped exactly once, with a ctx that has not
// ended, and the original error is returned.
func TestBootstrapFailures(t *testing.T) {
	type failure struct {
		name    string
		arrange func(p *fakeProvider, srv **openenvtest.Server, t *testing.T)
		opts    []openenv.Option
		limit   time.Duration // of the caller's ctx, 0 for none
		check   func(t *testing.T, err error)
		calls   string
	}
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	is := func(target error) func(*testing.T, error) {
		return func(t *testing.T, err error) { t.Helper(); wantIs(t, "FromProvider", err, target) }
	}
	serve := func(h func(t *testing.T) http.Handler) func(p *fakeProvider, srv **openenvtest.Server, t *testing.T) {
		return func(p *fakeProvider, srv **openenvtest.Server, t *testing.T) {
			*srv = openenvtest.Serve(t, h(t))
			p.endpoint.URLs = []string{(*srv).URL()}
		}
	}
	script := func(play func(*openenvtest.Peer)) func(p *fakeProvider, srv **openenvtest.Server, t *testing.T) {
		return serve(func(t *testing.T) http.Handler { return openenvtest.Script(t, play) })
	}
	for _, tt := range []failure{
		{"Start fails", func(p *fakeProvider, _ **openenvtest.Server, _ *testing.T) {
			p.start = func(context.Context) error { return errBoom }
		}, nil, 0, is(errBoom), "[start→stop]"},
		{"WaitReady fails", func(p *fakeProvider, _ **openenvtest.Server, _ *testing.T) {
			p.ready = func(context.Context) error { return errBoom }
		}, nil, 0, is(errBoom), "[start→ready→stop]"},
		{"the environment is gone", func(p *fakeProvider, _ **openenvtest.Server, _ *testing.T) {
			p.start = func(context.Context) error { return fmt.Errorf("expired: %w", provider.ErrGone) }
		}, []openenv.Option{openenv.WithConnectRetry(openenv.Retry{Attempts: 5, Base: time.Second})}, 0, is(openenv.ErrGone), "[start→stop]"},
		{"no URL", func(p *fakeProvider, _ **openenvtest.Server, _ *testing.T) { p.endpoint.URLs = nil }, nil, 0, func(t *testing.T, err error) {
			if !strings.Contains(err.Error(), "no URL") {
				t.Error(err)
			}
		}, "[start→ready→stop]"},
		{"bad URL", func(p *fakeProvider, _ **openenvtest.Server, _ *testing.T) { p.endpoint.URLs = []string{"ftp://h"} }, nil, 0, func(t *testing.T, err error) {
			if !strings.Contains(err.Error(), "bad address") {
				t.Error(err)
			}
		}, "[start→ready→stop]"},
		{"start timeout", func(p *fakeProvider, _ **openenvtest.Server, _ *testing.T) { p.ready = hang },
			[]openenv.Option{openenv.WithStartTimeout(time.Second)}, 0, func(t *testing.T, err error) {
				if !strings.Contains(err.Error(), "not ready within 1s") {
					t.Error(err)
				}
			}, "[start→ready→stop]"},
		{"upgrade refused", serve(func(*testing.T) http.Handler { return &statuses{status: 401} }), nil, 0, func(t *testing.T, err error) {
			if as[*openenv.ConnectError](t, "FromProvider", err).Status != 401 {
				t.Error(err)
			}
		}, "[start→ready→stop]"},
		{"not admitted", script(func(p *openenvtest.Peer) { p.Error("CAPACITY_REACHED", "full") }), nil, 0, is(openenv.ErrCapacity), "[start→ready→stop]"},
		{"never admitted", script(func(p *openenvtest.Peer) { p.Silence() }), nil, 0, is(openenv.ErrMessageTimeout), "[start→ready→stop]"},
		{"header function fails", script(answer), []openenv.Option{openenv.WithHeaderFunc(func(context.Context) (http.Header, error) { return nil, errBoom })},
			0, is(errBoom), "[start→ready→stop]"},
		{"ctx ends during Start", func(p *fakeProvider, _ **openenvtest.Server, _ *testing.T) { p.start = hang }, nil, time.Second, is(context.DeadlineExceeded), "[start→stop]"},
		{"ctx ends during WaitReady", func(p *fakeProvider, _ **openenvtest.Server, _ *testing.T) { p.ready = hang }, nil, time.Second, is(context.DeadlineExceeded), "[start→ready→stop]"},
		{"ctx ends during the dial", serve(func(t *testing.T) http.Handler { return slowUpgrade{openenvtest.Script(t, answer), time.Hour} }),
			nil, time.Second, is(context.DeadlineExceeded), "[start→ready→stop]"},
		{"ctx ends before admission", script(func(p *openenvtest.Peer) { p.Silence() }), nil, time.Second, is(context.DeadlineExceeded), "[start→ready→stop]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
				fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}}
				fake.stop = func(ctx context.Context) error {
					if deadline, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(deadline) != openenv.DefaultStopTimeout {
						t.Errorf("Stop's ctx: %v, deadline %v", ctx.Err(), deadline)
					}
					return nil
				}
				tt.arrange(fake, &srv, t)
				ctx := t.Context()
				if tt.limit > 0 {
					ctx = within(t, tt.limit)
				}
				env, err := openenv.FromProvider(ctx, openenv.Generic, fake, append([]openenv.Option{srv.Option()}, tt.opts...)...)
				if err == nil {
					env.Close()
					t.Fatal("no error")
				}
				tt.check(t, err)
				if fake.log() != tt.calls {
					t.Errorf("provider calls %s, want %s", fake.log(), tt.calls)
				}
			})
		})
	}
}

// Report: a bootstrap is one blocking call, and the address can be read back.
func TestFromProvider(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}}
		boot := openenv.Lazy(func(ctx context.Context) (*openenv.GenericClient, error) {
			return openenv.FromProvider(ctx, openenv.Generic, fake, srv.Option())
		})
		env, err := boot.Await(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if env.BaseURL() != srv.URL() || env.ExecMode() != openenv.ExecNone {
			t.Errorf("URL %q, mode %v", env.BaseURL(), env.ExecMode())
		}
		mustReset(t, env)
		if err := env.Close(); err != nil || fake.log() != "[start→ready→stop]" {
			t.Errorf("%v, provider calls %s", err, fake.log())
		}
	})
}

// A Stop that fails while a bootstrap is undone does not hide the original error,
// nor the other way round.
func TestUndoThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		jammed := errors.New("jammed")
		for name, fake := range map[string]*fakeProvider{
			"start": {start: func(context.Context) error { return errBoom }, stop: func(context.Context) error { return jammed }},
			"dial":  {endpoint: provider.Endpoint{URLs: []string{"http://127.0.0.1:1"}}, stop: func(context.Context) error { return jammed }},
		} {
			srv := openenvtest.Serve(t, &statuses{status: 500})
			env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
			_, err := env.Reset(t.Context())
			wantAs[*openenv.ConnectError](t, name, err)
			wantIs(t, name, err, openenv.ErrCleanupPending)
			wantIs(t, name, err, jammed)
			if name == "start" {
				wantIs(t, name, err, errBoom)
			}
			if fake.count("stop") != 1 {
				t.Errorf("%s: provider calls %s", name, fake.log())
			}
			fake.stop = nil
		}
	})
}

// A refused session of a family must not take the server from those admitted: only
// the last user of a server that was started for it undoes the start.
func TestUndoSparesSiblings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
			if p.Number() > 8 {
				p.Error("CAPACITY_REACHED", "eight at most")
				return
			}
			answer(p)
		}))
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
		fs := make([]*openenv.Future[*openenv.GenericClient], 16)
		for i := range fs {
			fs[i] = env.Async().NewSession()
		}
		children, err := openenv.AwaitAll(t.Context(), fs...)
		wantIs(t, "AwaitAll", err, openenv.ErrCapacity)
		admitted := 0
		for _, child := range children {
			if child == nil {
				continue
			}
			admitted++
			if _, err := child.Step(t.Context(), do(1)); err != nil {
				t.Errorf("a sibling: %v", err)
			}
		}
		if admitted != 8 || fake.log() != "[start→ready]" {
			t.Errorf("%d admitted, provider calls %s", admitted, fake.log())
		}
	})
}

// One start for all who come during it; a caller who leaves does not end it, nor does
// an information call bound it by its message timeout.
func TestStartIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}, start: func(ctx context.Context) error {
			select {
			case <-time.After(2 * time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
		var wg sync.WaitGroup
		go func() {
			_, err := env.Health(within(t, time.Second))
			wantIs(t, "impatient Health", err, context.DeadlineExceeded)
		}()
		synctest.Wait()
		for name, call := range map[string]func() error{
			"Health":     func() error { _, err := env.Health(t.Context()); return err },
			"Reset":      func() error { _, err := env.Reset(t.Context()); return err },
			"NewSession": func() error { _, err := env.NewSession(t.Context()); return err },
		} {
			wg.Go(func() {
				if err := call(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		if fake.log() != "[start→ready]" {
			t.Errorf("provider calls %s", fake.log())
		}
	})
}

// A provider beside a base URL is only stopped, once.
func TestProviderOfAGivenURL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fake := &fakeProvider{}
		env, _ := scripted(t, answer, openenv.WithProvider(fake))
		mustReset(t, env)
		for range 2 {
			if err := env.Close(); err != nil {
				t.Error(err)
			}
		}
		wantIs(t, "Connect", env.Connect(t.Context()), openenv.ErrClosed)
		if fake.log() != "[stop]" {
			t.Errorf("provider calls %s", fake.log())
		}
	})
}

// Close races with everything that may start the provider: it never outlives Close.
func TestCloseRacesWithStart(t *testing.T) {
	for i := range 30 {
		bubble(t, func(t *testing.T) {
			srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
			fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}}
			fake.start = func(context.Context) error { time.Sleep(time.Duration(i%3) * time.Millisecond); return nil }
			env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
			for range 3 {
				go func() { _, _ = env.Health(t.Context()) }()
				go func() { _, _ = env.NewSession(t.Context()) }()
				go func() { _, _ = env.State(t.Context()) }()
			}
			time.Sleep(time.Duration(i%4) * time.Millisecond)
			if err := env.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if fake.count("start") != fake.count("stop") || strings.Contains(fake.log(), "overlaps") {
				t.Errorf("provider calls %s", fake.log())
			}
		})
	}
}

// Report: a cloud sandbox needs headers, and pings off. What the provider advises
// reaches the dial; the client's own options win.
func TestProviderHeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got http.Header
		srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
			got = p.Request().Header
			answer(p)
		}))
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}, Headers: http.Header{"x-sandbox": {"s1"}, "X-Both": {"provider"}}}}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake), openenv.WithHeaders(http.Header{"x-both": {"client"}}))
		mustReset(t, env)
		if got.Get("X-Sandbox") != "s1" || fmt.Sprint(got.Values("X-Both")) != "[client]" {
			t.Errorf("headers %v", got)
		}
	})
}

// A slow Stop in the undoing of a start: a caller whose ctx ends does not wait for it,
// Close does, once, and without calling it an error.
func TestUndoThatTakesItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, &statuses{status: 503})
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}, stop: func(context.Context) error { time.Sleep(10 * time.Second); return nil }}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
		took := after(func() {
			_, err := env.Reset(within(t, time.Second))
			wantIs(t, "Reset", err, context.DeadlineExceeded)
		})
		if took != time.Second {
			t.Errorf("left after %v", took)
		}
		took = after(func() {
			if err := env.Close(); err != nil {
				t.Error(err)
			}
		})
		if took != 9*time.Second || fake.log() != "[start→ready→stop]" {
			t.Errorf("Close took %v, provider calls %s", took, fake.log())
		}
	})
}
