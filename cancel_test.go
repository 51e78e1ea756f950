package openenv_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// Report: an expired ctx must not cost the connection. Nothing is sent for a call
// that leaves before its turn or before its write.
func TestCancelBeforeSending(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name string
		call func(ctx context.Context, env *openenv.GenericClient) error
	}{
		{"Step", func(ctx context.Context, env *openenv.GenericClient) error {
			_, err := env.Step(ctx, do(1))
			return err
		}},
		{"Reset", func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.Reset(ctx); return err }},
		{"State", func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.State(ctx); return err }},
		{"Get", func(ctx context.Context, env *openenv.GenericClient) error {
			_, err := env.Async().Step(do(1)).Get(ctx)
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var seen record
				env, script := scripted(t, seen.play(time.Second))
				mustReset(t, env)
				wantIs(t, "ended ctx", tt.call(ended, env), context.Canceled)

				busy := make(chan error, 1)
				go func() { _, err := env.Step(t.Context(), do(0)); busy <- err }()
				synctest.Wait()
				took := after(func() {
					wantIs(t, "waiting for its turn", tt.call(within(t, time.Millisecond), env), context.DeadlineExceeded)
				})
				if took != time.Millisecond {
					t.Errorf("the caller left after %v", took)
				}
				if err := <-busy; err != nil {
					t.Errorf("the call in progress: %v", err)
				}
				if _, err := env.State(t.Context()); err != nil {
					t.Errorf("the session: %v", err)
				}
				seen.want(t, "reset", `step{"n":0}`, "state")
				if script.Accepted() != 1 {
					t.Errorf("%d sockets", script.Accepted())
				}
			})
		})
	}
}

// While the socket is being dialled, too, the caller leaves alone; the dial goes on.
func TestCancelDuringTheDial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		script := openenvtest.Script(t, seen.play(0))
		srv := openenvtest.Serve(t, slowUpgrade{script, 2 * time.Second})
		env := generic(t, srv.URL(), srv.Option())
		patient := make(chan error, 1)
		took := after(func() {
			_, err := env.Reset(within(t, time.Second))
			wantIs(t, "Reset", err, context.DeadlineExceeded)
			go func() { _, err := env.State(t.Context()); patient <- err }()
		})
		if took != time.Second {
			t.Errorf("left after %v", took)
		}
		if err := <-patient; err != nil || script.Accepted() != 1 {
			t.Errorf("the other caller: %v, %d sockets", err, script.Accepted())
		}
		seen.want(t, "state")
	})
}

// slowUpgrade answers the upgrade after a while.
type slowUpgrade struct {
	*openenvtest.Scripted
	pause time.Duration
}

func (s slowUpgrade) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(s.pause):
		s.Scripted.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// What becomes of the session when the caller of a request that was sent leaves.
func TestCancelAfterSending(t *testing.T) {
	step := func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := env.Step(ctx, do(7))
		return err
	}
	reset := func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.Reset(ctx); return err }
	state := func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.State(ctx); return err }
	for _, tt := range []struct {
		name  string
		opts  []openenv.Option
		call  func(ctx context.Context, env *openenv.GenericClient) error
		lives bool
	}{
		{"State: its late reply is discarded", nil, state, true},
		{"Step: dropped, so that the server can cancel the work", nil, step, false},
		{"Reset: dropped, so that the server can cancel the work", nil, reset, false},
		{"Step with WithKeepOnCancel", []openenv.Option{openenv.WithKeepOnCancel()}, step, true},
		{"Reset with WithKeepOnCancel", []openenv.Option{openenv.WithKeepOnCancel()}, reset, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var left atomic.Int64 // when the client left the first socket
				begin := time.Now()
				env, script := scripted(t, func(p *openenvtest.Peer) {
					if p.Number() == 1 {
						p.Expect("reset")
						p.Observation(`{"at":"reset"}`)
						late, _ := p.Next()
						gone := make(chan struct{})
						go func() { // the server notices while the environment works
							defer close(gone)
							for {
								f, ok := p.Next()
								if !ok {
									left.Store(int64(time.Since(begin)))
									return
								}
								if f.Type == "close" {
									return
								}
								respond(p, f)
							}
						}()
						time.Sleep(3 * time.Second)
						if left.Load() == 0 {
							respond(p, late)
						}
						<-gone
						return
					}
					answer(p)
				}, tt.opts...)
				mustReset(t, env)
				took := after(func() { wantIs(t, "call", tt.call(within(t, time.Second), env), context.DeadlineExceeded) })
				if took != time.Second {
					t.Errorf("the caller left after %v", took)
				}
				if !tt.lives {
					lost := as[*openenv.SessionLostError](t, "next Step", step(t.Context(), env))
					if lost.Sent || errors.Is(lost, context.DeadlineExceeded) || !strings.Contains(lost.Error(), "cancelled") {
						t.Errorf("next step: %v (%+v)", lost, lost)
					}
					mustReset(t, env)
					synctest.Wait()
					if gone := time.Duration(left.Load()); script.Accepted() != 2 || gone != time.Second {
						t.Errorf("%d sockets, the server saw the first go after %v", script.Accepted(), gone)
					}
					return
				}
				time.Sleep(3 * time.Second)
				for i := range 3 {
					if res, err := env.Step(t.Context(), do(i)); err != nil || res.Observation["n"] != float64(i) {
						t.Fatalf("step %d afterwards: %v, %v", i, res.Observation, err)
					}
				}
				if script.Accepted() != 1 {
					t.Errorf("%d sockets", script.Accepted())
				}
			})
		})
	}
}

// The cause that somebody gave a ctx shows, and does not hide the ctx's own error.
func TestCancelCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) { p.Silence() })
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := env.State(ctx)
		wantIs(t, "State", err, why)
		wantIs(t, "State", err, context.Canceled)
	})
}

// A message timeout always drops, whatever the request and the options.
func TestMessageTimeoutDrops(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, env *openenv.GenericClient) error{
		"state": func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.State(ctx); return err },
		"step": func(ctx context.Context, env *openenv.GenericClient) error {
			_, err := env.Step(ctx, do(1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, script := scripted(t, func(p *openenvtest.Peer) {
					if p.Number() > 1 {
						answer(p)
						return
					}
					reply(p)
					p.Silence()
				}, openenv.WithMessageTimeout(time.Second), openenv.WithKeepOnCancel())
				mustReset(t, env)
				took := after(func() { wantIs(t, name, call(t.Context(), env), openenv.ErrMessageTimeout) })
				if took != time.Second {
					t.Errorf("after %v", took)
				}
				_, err := env.Step(t.Context(), do(2))
				wantAs[*openenv.SessionLostError](t, "next Step", err)
				wantIs(t, "its cause", err, openenv.ErrMessageTimeout)
				mustReset(t, env)
				if script.Accepted() != 2 {
					t.Errorf("%d sockets", script.Accepted())
				}
			})
		})
	}
}

// Report: a reply vanishes when the timeout races with its arrival. Every call ends
// with exactly one outcome, and a result is the call's own.
func TestTimeoutsRaceWithReplies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 20 * time.Millisecond
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			for {
				f, ok := p.Next()
				if !ok || f.Type == "close" {
					return
				}
				time.Sleep(limit - time.Millisecond + time.Duration(rand.Int64N(int64(2*time.Millisecond)+1)))
				respond(p, f)
			}
		}, openenv.WithMessageTimeout(limit))
		results, timeouts := 0, 0
		for i := range 8000 {
			if i%16 == 0 { // a session that was never reset, in which State alone is clean
				if _, err := env.State(t.Context()); err == nil {
					results++
				} else if errors.Is(err, openenv.ErrMessageTimeout) {
					timeouts++
				} else {
					t.Fatalf("call %d: %v", i, err)
				}
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			_, err := env.State(ctx)
			cancel()
			switch {
			case err == nil:
				results++
			case errors.Is(err, openenv.ErrMessageTimeout), errors.Is(err, context.DeadlineExceeded):
				timeouts++
			default:
				t.Fatalf("call %d: %v", i, err)
			}
		}
		for i := range 2000 {
			res, err := env.Step(t.Context(), do(i))
			switch {
			case err == nil && res.Observation["n"] == float64(i):
				results++
			case errors.Is(err, openenv.ErrMessageTimeout):
				timeouts++
				if err := env.Connect(t.Context()); err != nil && !errors.Is(err, openenv.ErrMessageTimeout) {
					t.Fatalf("Connect: %v", err)
				}
			default:
				t.Fatalf("step %d: %v, %v", i, res.Observation, err)
			}
		}
		if results < 1000 || timeouts < 1000 {
			t.Errorf("%d results and %d timeouts: not a race", results, timeouts)
		}
	})
}

// Report: cancelling during a large send corrupts later traffic. The caller gets its
// error at once, the socket is done with, and the peer never sees a whole message.
func TestCancelInTheMiddleOfAWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		whole := make(chan error, 1)
		srv := openenvtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer ws.CloseNow()
			ws.SetReadLimit(-1)
			if r.Header.Get("Second") != "" {
				return
			}
			if _, _, err := ws.Read(r.Context()); err != nil { // the reset
				whole <- fmt.Errorf("reset: %w", err)
				return
			}
			_ = ws.Write(r.Context(), websocket.MessageText, []byte(`{"type":"observation","data":{"observation":{},"reward":null,"done":false}}`))
			time.Sleep(10 * time.Second) // a receive window that is full
			_, reader, err := ws.Reader(r.Context())
			if err == nil {
				var data []byte
				if data, err = io.ReadAll(reader); err == nil {
					err = fmt.Errorf("peer received a message of %d bytes, valid JSON: %v", len(data), json.Valid(data))
					whole <- err
					return
				}
			}
			whole <- nil
		}))
		env := generic(t, srv.URL(), srv.Option(), openenv.WithPingInterval(0))
		mustReset(t, env)
		big := openenv.Object{"x": strings.Repeat("x", 32<<20)}
		took := after(func() {
			_, err := env.Step(within(t, time.Second), big)
			wantIs(t, "Step", err, context.DeadlineExceeded)
		})
		if took > 1200*time.Millisecond {
			t.Errorf("left after %v", took)
		}
		_, err := env.Step(t.Context(), do(1))
		wantAs[*openenv.SessionLostError](t, "next Step", err)
		if err := <-whole; err != nil {
			t.Error(err)
		}
	})
}

// Report: cancelled rollouts keep running and the process does not exit.
func TestCancelManyAndClose(t *testing.T) {
	leak.Check(t)
	before := runtime.NumGoroutine()
	script := openenvtest.Script(t, func(p *openenvtest.Peer) { p.Silence() })
	srv := openenvtest.ServeLoopback(t, script)
	env, err := openenv.New(openenv.Generic, srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	fs := make([]*stepFuture, 16)
	for i := range fs {
		fs[i] = env.Async().Step(do(i)).Start(ctx)
	}
	cancel()
	for _, f := range fs {
		<-f.Done()
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
	deadline := time.Now().Add(time.Second)
	for runtime.NumGoroutine() > before+3 && time.Now().Before(deadline) { // the server keeps three
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+3 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
