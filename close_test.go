package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
	"github.com/openenv-go/openenv/provider"
)

// Close is final, idempotent and safe from many goroutines; every verb says so after it.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(0))
		mustReset(t, env)
		child, err := env.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := env.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		before := seen.len()
		for name, c := range map[string]*openenv.GenericClient{"client": env, "child": child} {
			for verb, call := range map[string]func() error{
				"Connect":    func() error { return c.Connect(t.Context()) },
				"Reset":      func() error { _, err := c.Reset(t.Context()); return err },
				"Step":       func() error { _, err := c.Step(t.Context(), do(1)); return err },
				"State":      func() error { _, err := c.State(t.Context()); return err },
				"NewSession": func() error { _, err := c.NewSession(t.Context()); return err },
				"Disconnect": func() error { return c.Disconnect(t.Context()) },
				"Health":     func() error { _, err := c.Health(t.Context()); return err },
				"Metadata":   func() error { _, err := c.Metadata(t.Context()); return err },
				"Schema":     func() error { _, err := c.Schema(t.Context()); return err },
				"Await":      func() error { _, err := c.Async().Step(do(1)).Await(t.Context()); return err },
				"Start":      func() error { _, err := c.Async().State().Start(t.Context()).Await(t.Context()); return err },
				"Defer": func() error {
					_, err := openenv.Defer(c, func(context.Context) (int, error) { return 1, nil }).Await(t.Context())
					return err
				},
				"async close": func() error { _, err := c.Async().Disconnect().Start(t.Context()).Await(t.Context()); return err },
			} {
				if err := call(); !errors.Is(err, openenv.ErrClosed) {
					t.Errorf("%s of a closed %s: %v", verb, name, err)
				}
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close of a closed %s: %v", name, err)
			}
		}
		if synctest.Wait(); seen.len() != before {
			t.Errorf("server received %v", &seen)
		}
		if env.BaseURL() != "http://memnet.test:80" {
			t.Errorf("an address that was given is kept: %q", env.BaseURL())
		}
	})
}

// Close fails every waiting call with ErrClosed: on the wire, in the queue, in the
// dial, over HTTP.
func TestCloseWithCallsWaiting(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(p *openenvtest.Peer)
		slow time.Duration
	}{
		{"silent peer", func(p *openenvtest.Peer) { p.Silence() }, 0},
		{"deaf peer", func(p *openenvtest.Peer) { p.Deaf() }, 0},
		{"during the dial", answer, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := openenvtest.Serve(t, slowUpgrade{openenvtest.Script(t, tt.play), tt.slow})
				env := generic(t, srv.URL(), srv.Option(), openenv.WithConnectTimeout(0), openenv.WithPingInterval(0), openenv.WithMessageTimeout(0))
				calls := []func() error{
					func() error { _, err := env.Async().Step(do(1)).Await(t.Context()); return err },
					func() error { _, err := env.Async().Step(do(2)).Start(t.Context()).Await(t.Context()); return err },
					func() error { _, err := env.Async().State().Await(t.Context()); return err },
					func() error { return env.Connect(t.Context()) },
					func() error { _, err := env.Async().Connect().Start(t.Context()).Await(t.Context()); return err },
					func() error { _, err := env.NewSession(t.Context()); return err },
					func() error { _, err := env.Async().NewSession().Start(t.Context()).Await(t.Context()); return err },
				}
				if tt.slow > 0 {
					calls = append(calls, func() error { _, err := env.Health(t.Context()); return err })
				}
				outcomes := make(chan error, len(calls))
				for _, call := range calls {
					go func() { outcomes <- call() }()
				}
				synctest.Wait()
				if took := after(func() {
					if err := env.Close(); err != nil {
						t.Error(err)
					}
				}); took > 3*time.Second {
					t.Errorf("Close took %v", took)
				}
				for range calls {
					wantIs(t, "call", <-outcomes, openenv.ErrClosed)
				}
			})
		})
	}
}

// Report: Close blocks when the peer does not answer the close frame. Fifty clients
// of peers that stopped reading are closed within the close timeout.
func TestCloseOfDeafPeers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opts  []openenv.Option
		limit time.Duration
	}{
		{"default", nil, time.Second},
		{"short", []openenv.Option{openenv.WithCloseTimeout(100 * time.Millisecond)}, 100 * time.Millisecond},
		{"0", []openenv.Option{openenv.WithCloseTimeout(0)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				script := openenvtest.Script(t, func(p *openenvtest.Peer) { reply(p); p.Deaf() })
				srv := openenvtest.Serve(t, script)
				envs := make([]*openenv.GenericClient, 50)
				for i := range envs {
					envs[i] = generic(t, srv.URL(), append([]openenv.Option{srv.Option()}, tt.opts...)...)
					mustReset(t, envs[i])
				}
				took := after(func() {
					var wg sync.WaitGroup
					for _, env := range envs {
						wg.Go(func() {
							if err := env.Close(); err != nil {
								t.Error(err)
							}
						})
					}
					wg.Wait()
				})
				if took > tt.limit {
					t.Errorf("closed after %v, want %v", took, tt.limit)
				}
			})
		})
	}
}

// Report: sandboxes orphaned at shutdown. Children close in parallel, and the server
// has ended their sessions when Close returns.
func TestCloseOfManyChildren(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var alive atomic.Int32
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			alive.Add(1)
			for {
				f, ok := p.Next()
				if !ok || f.Type == "close" {
					time.Sleep(500 * time.Millisecond)
					alive.Add(-1)
					return
				}
				respond(p, f)
			}
		})
		for range 20 {
			if _, err := env.NewSession(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := after(func() { _ = env.Close() }); took > 1500*time.Millisecond || alive.Load() != 0 {
			t.Errorf("%d sessions alive after %v", alive.Load(), took)
		}
	})
}

// The order: children, own socket, provider; then the address is forgotten.
func TestCloseOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		note := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, text)
		}
		script := openenvtest.Script(t, func(p *openenvtest.Peer) {
			for reply(p) {
			}
			if p.Number() > 1 {
				time.Sleep(100 * time.Millisecond)
				note("child")
				return
			}
			note("parent")
		})
		srv := openenvtest.Serve(t, script)
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}, stop: func(context.Context) error { note("provider"); return nil }}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
		mustReset(t, env)
		for range 2 {
			if _, err := env.NewSession(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if env.BaseURL() != "http://memnet.test:80" {
			t.Errorf("base URL %q", env.BaseURL())
		}
		if err := env.Close(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(order); got != "[child child parent provider]" || env.BaseURL() != "" {
			t.Errorf("%s, base URL afterwards %q", got, env.BaseURL())
		}
	})
}

// After Close only an explicit Connect opens a client again, and only one whose
// server comes from its provider: started anew, unclaimed, without its children.
func TestConnectAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
		mustReset(t, env)
		child, err := env.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = env.Reset(t.Context())
		wantIs(t, "Reset", err, openenv.ErrClosed)
		if _, err := env.Async().Connect().Start(t.Context()).Await(t.Context()); err != nil {
			t.Fatalf("Connect: %v", err)
		}
		if env.ExecMode() != openenv.ExecNone {
			t.Errorf("mode is %v", env.ExecMode())
		}
		if _, err := env.Async().Step(do(1)).Await(t.Context()); err != nil {
			t.Errorf("Step: %v", err) // no episode was lost: this is a new client
		}
		_, err = child.Step(t.Context(), do(1))
		wantIs(t, "child", err, openenv.ErrClosed)
		wantIs(t, "child", child.Connect(t.Context()), openenv.ErrClosed)
		if err := env.Close(); err != nil {
			t.Fatal(err)
		}
		if fake.log() != "[start→ready→stop→start→ready→stop]" {
			t.Errorf("provider calls %s", fake.log())
		}
	})
}

// Connect that comes while Close is at work waits for it and opens the client again.
func TestConnectDuringClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}, stop: func(context.Context) error { time.Sleep(5 * time.Second); return nil }}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
		mustReset(t, env)
		closed := make(chan error, 1)
		go func() { closed <- env.Close() }()
		time.Sleep(time.Second)
		wantIs(t, "impatient Connect", env.Connect(within(t, time.Second)), context.DeadlineExceeded)
		if err := env.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustReset(t, env)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := env.Close(); err != nil || fake.log() != "[start→ready→stop→start→ready→stop]" {
			t.Errorf("%v, provider calls %s", err, fake.log())
		}
	})
}

// A Stop that fails keeps its handle: the next Close or Connect stops first.
func TestCleanupPending(t *testing.T) {
	boom := errors.New("device busy")
	for _, tt := range []struct {
		name  string
		fails int
		then  func(t *testing.T, env *openenv.GenericClient) error
		want  error
		calls string
	}{
		{"Close again", 1, func(_ *testing.T, env *openenv.GenericClient) error { return env.Close() }, nil, "[start→ready→stop→stop]"},
		{"Close again in vain", 2, func(_ *testing.T, env *openenv.GenericClient) error { return env.Close() }, openenv.ErrCleanupPending, "[start→ready→stop→stop]"},
		{"Connect", 1, func(t *testing.T, env *openenv.GenericClient) error { return env.Connect(t.Context()) }, nil, "[start→ready→stop→stop→start→ready]"},
		{"Connect in vain", 2, func(t *testing.T, env *openenv.GenericClient) error { return env.Connect(t.Context()) }, openenv.ErrCleanupPending, "[start→ready→stop→stop]"},
		{"a verb", 1, func(t *testing.T, env *openenv.GenericClient) error {
			_, err := env.Step(t.Context(), do(1))
			return err
		}, openenv.ErrClosed, "[start→ready→stop]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
				failures := tt.fails
				fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}, stop: func(context.Context) error {
					if failures--; failures >= 0 {
						return boom
					}
					return nil
				}}
				env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
				mustReset(t, env)
				err := env.Close()
				wantIs(t, "Close", err, openenv.ErrCleanupPending)
				wantIs(t, "Close", err, boom)
				if err := tt.then(t, env); !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				if fake.log() != tt.calls {
					t.Errorf("provider calls %s, want %s", fake.log(), tt.calls)
				}
			})
		})
	}
}

// Stop gets a ctx of its own with the stop timeout; a provider that hangs in Start
// does not hang Close.
func TestCloseBoundsTheProvider(t *testing.T) {
	t.Run("stop", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
			fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}, stop: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }}
			env := generic(t, "", srv.Option(), openenv.WithProvider(fake), openenv.WithStopTimeout(5*time.Second), openenv.WithCloseTimeout(0))
			mustReset(t, env)
			took := after(func() {
				err := env.Close()
				wantIs(t, "Close", err, openenv.ErrCleanupPending)
				if !strings.Contains(err.Error(), "not stopped within 5s") {
					t.Errorf("error %v", err)
				}
			})
			if took != 5*time.Second {
				t.Errorf("after %v", took)
			}
		})
	})
	t.Run("start", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			fake := &fakeProvider{start: func(context.Context) error { time.Sleep(time.Hour); return nil }}
			env := generic(t, "", openenv.WithProvider(fake), openenv.WithStopTimeout(5*time.Second))
			waiting := make(chan error, 1)
			go func() { waiting <- env.Connect(t.Context()) }()
			synctest.Wait()
			if took := after(func() { wantIs(t, "Close", env.Close(), openenv.ErrCleanupPending) }); took > 8*time.Second {
				t.Errorf("after %v", took)
			}
			wantIs(t, "Connect", <-waiting, openenv.ErrClosed)
			time.Sleep(time.Hour)
			if err := env.Close(); err != nil || fake.log() != "[start→ready→stop]" {
				t.Errorf("%v, provider calls %s", err, fake.log())
			}
		})
	})
}

// Close joins what went wrong, by name.
func TestCloseNamesItsErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, openenvtest.Script(t, answer))
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}}, stop: func(context.Context) error { return errors.New("jammed") }}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
		child, err := env.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		openenv.Defer(child, func(context.Context) (int, error) { <-release; return 0, nil }).Start(t.Context())
		synctest.Wait()
		err = env.Close()
		for _, part := range []string{"child session 0: session: ", "stop provider: ", "jammed"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
		close(release)
	})
}

// Report: sessions leak when an episode ends through an error. Use closes in every case.
func TestUse(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name string
		body func(cancel func(), env *openenv.GenericClient) error
		want error
	}{
		{"success", func(func(), *openenv.GenericClient) error { return nil }, nil},
		{"error", func(func(), *openenv.GenericClient) error { return boom }, boom},
		{"panic", func(func(), *openenv.GenericClient) error { panic(boom) }, boom},
		{"ctx ends", func(cancel func(), env *openenv.GenericClient) error {
			go func() { time.Sleep(time.Second); cancel() }()
			_, err := env.Step(context.Background(), openenv.Object{"never": "answered"})
			return err
		}, openenv.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var alive atomic.Int32
				env, _ := scripted(t, func(p *openenvtest.Peer) {
					alive.Add(1)
					defer alive.Add(-1)
					reply(p)
					p.Silence()
				}, openenv.WithMessageTimeout(0))
				mustReset(t, env)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := func() (err error) {
					defer func() {
						if r := recover(); r != nil {
							err = r.(error)
						}
					}()
					return openenv.Use(ctx, env, func(c *openenv.GenericClient) error { return tt.body(cancel, c) })
				}()
				if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				time.Sleep(time.Second)
				if alive.Load() != 0 {
					t.Error("the session lives on")
				}
				_, err = env.State(t.Context())
				wantIs(t, "afterwards", err, openenv.ErrClosed)
			})
		})
	}
}

// Report: every clean disconnect logs a trace. Normal ends are not errors.
func TestNormalEndsAreNotLogged(t *testing.T) {
	leak.Check(t)
	srv := openenvtest.ServeLoopback(t, openenvtest.Script(t, answer))
	var log logBuffer
	for range 50 {
		env, err := openenv.New(openenv.Generic, srv.URL(), openenv.WithLogger(log.logger(false)))
		if err != nil {
			t.Fatal(err)
		}
		mustReset(t, env)
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
	if log.String() != "" {
		t.Errorf("log:\n%s", log.String())
	}
}
