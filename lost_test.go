package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// loss is one way for a session to end.
type loss struct {
	name  string
	peer  func(p *openenvtest.Peer)                             // what the server does after the preparation
	do    func(ctx context.Context, env *openenv.GenericClient) // what the client does
	cause func(err error) bool                                  // whether the error tells the reason
	clean func(ctx context.Context, env *openenv.GenericClient) // do, for a session in which nothing was done
}

func says(text string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), text) }
}

func losses() []loss {
	idle := func(context.Context, *openenv.GenericClient) { synctest.Wait() }
	silent := func(p *openenvtest.Peer) { p.Silence() }
	disconnect := func(ctx context.Context, env *openenv.GenericClient) { _ = env.Disconnect(ctx) }
	return []loss{
		{"peer closes", func(p *openenvtest.Peer) { p.Close(1001, "restarting") }, idle, says("1001"), idle},
		{"peer aborts", func(p *openenvtest.Peer) { p.Abort() }, idle, says("connection lost"), idle},
		{"message timeout", silent, func(ctx context.Context, env *openenv.GenericClient) { _, _ = env.Step(ctx, do(0)) },
			func(err error) bool { return errors.Is(err, openenv.ErrMessageTimeout) },
			func(ctx context.Context, env *openenv.GenericClient) { _, _ = env.State(ctx) }},
		{"cancelled step", silent, func(ctx context.Context, env *openenv.GenericClient) {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, _ = env.Step(ctx, do(0))
		}, says("step was cancelled"), nil},
		{"disconnect", silent, disconnect, says("disconnected"), disconnect},
	}
}

// A lost session is never papered over: which losses are refused, by which verbs,
// and what clears them. A refusal makes no I/O and keeps the cause.
func TestLostSessions(t *testing.T) {
	step := func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := env.Step(ctx, do(1))
		return err
	}
	state := func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.State(ctx); return err }
	reset := func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.Reset(ctx); return err }
	connect := func(ctx context.Context, env *openenv.GenericClient) error { return env.Connect(ctx) }
	future := func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := env.Async().Step(do(1)).Get(ctx)
		return err
	}
	type verb = func(ctx context.Context, env *openenv.GenericClient) error
	const ok, lost = "ok", "lost"
	for _, was := range []struct {
		name    string
		prepare verb
		next    []struct {
			name  string
			verbs []verb
			want  []string
		}
	}{
		{"reset", reset, []struct {
			name  string
			verbs []verb
			want  []string
		}{
			{"Step", []verb{step, step, future, state}, []string{lost, lost, lost, lost}},
			{"State", []verb{state}, []string{lost}},
			{"Reset", []verb{step, reset, step, state}, []string{lost, ok, ok, ok}},
			{"Connect", []verb{connect, step, state, reset, step}, []string{ok, lost, lost, ok, ok}},
		}},
		{"step without reset", step, []struct {
			name  string
			verbs []verb
			want  []string
		}{
			{"Step", []verb{step, state, future}, []string{lost, lost, lost}},
			{"Connect", []verb{step, connect, step, state}, []string{lost, ok, ok, ok}},
			{"Reset", []verb{state, reset, step}, []string{lost, ok, ok}},
		}},
		{"state only", state, []struct {
			name  string
			verbs []verb
			want  []string
		}{
			{"Step", []verb{step}, []string{ok}},
			{"State", []verb{state, step}, []string{ok, ok}},
			{"Reset", []verb{reset}, []string{ok}},
			{"Connect", []verb{connect, step}, []string{ok, ok}},
		}},
	} {
		for _, how := range losses() {
			if was.name == "state only" && how.clean == nil {
				continue // a cancelled State ends nothing
			}
			for _, then := range was.next {
				t.Run(fmt.Sprintf("%s/%s/%s", was.name, how.name, then.name), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						var seen record
						kick := make(chan struct{})
						env, script := scripted(t, func(p *openenvtest.Peer) {
							if p.Number() > 1 {
								seen.play(0)(p)
								return
							}
							reply(p)
							<-kick
							how.peer(p)
						}, openenv.WithMessageTimeout(time.Second))
						if err := was.prepare(t.Context(), env); err != nil {
							t.Fatal(err)
						}
						close(kick)
						if was.name == "state only" {
							how.clean(t.Context(), env)
						} else {
							how.do(t.Context(), env)
						}
						opened := false
						for i, call := range then.verbs {
							err := call(t.Context(), env)
							if then.want[i] == ok {
								opened = true
								if err != nil {
									t.Fatalf("call %d: %v", i, err)
								}
								continue
							}
							gone := as[*openenv.SessionLostError](t, fmt.Sprintf("call %d", i), err)
							if !how.cause(gone) || gone.Sent {
								t.Errorf("call %d: %v (%+v)", i, gone, gone)
							}
							if synctest.Wait(); !opened && (script.Accepted() != 1 || seen.len() != 0) {
								t.Errorf("a refusal made I/O: %d sockets, %v", script.Accepted(), &seen)
							}
						}
						if opened && script.Accepted() != 2 {
							t.Errorf("%d sockets", script.Accepted())
						}
					})
				})
			}
		}
	}
}

// The call during which the session ends says so, and it is not made again.
func TestLostInTheMiddleOfACall(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(p *openenvtest.Peer)
	}{
		{"close", func(p *openenvtest.Peer) { p.Close(1011, "crashed") }},
		{"abort", func(p *openenvtest.Peer) { p.Abort() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var seen record
				env, script := scripted(t, func(p *openenvtest.Peer) {
					f, _ := p.Next()
					seen.add(f)
					if f.Type == "step" {
						tt.end(p)
						return
					}
					respond(p, f)
					f, _ = p.Next()
					seen.add(f)
					tt.end(p)
				})
				mustReset(t, env)
				_, err := env.Step(t.Context(), do(1))
				lost := as[*openenv.SessionLostError](t, "Step", err)
				if !lost.Sent || lost.Op != "step" || !strings.HasPrefix(lost.URL, "ws://") {
					t.Errorf("%+v", lost)
				}
				synctest.Wait()
				seen.want(t, "reset", `step{"n":1}`)
				if script.Accepted() != 1 {
					t.Errorf("%d sockets", script.Accepted())
				}
			})
		})
	}
}

// State alone is a read: when the socket ends under it, that is a connection error
// and no episode is lost.
func TestCleanSessionEndsUnderState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			if p.Number() == 1 {
				p.Expect("state")
				p.Abort()
				return
			}
			answer(p)
		})
		_, err := env.State(t.Context())
		wantAs[*openenv.ConnectError](t, "State", err)
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Errorf("Step: %v", err)
		}
	})
}

// A reset that fails does not clear a loss, one that succeeds does, even late.
func TestWhatClearsALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			p.Expect("reset")
			if p.Number() == 1 {
				p.Observation(`{}`)
				p.Abort()
				return
			}
			p.Error("EXECUTION_ERROR", "not now")
			answer(p)
		})
		mustReset(t, env)
		synctest.Wait()
		_, err := env.Reset(t.Context())
		wantAs[*openenv.ServerError](t, "Reset", err)
		_, err = env.Step(t.Context(), do(1))
		wantAs[*openenv.SessionLostError](t, "Step after a failed reset", err)
		mustReset(t, env)
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Error(err)
		}
	})
}

// A Connect that fails clears nothing.
func TestFailedConnectKeepsTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			switch p.Number() {
			case 1:
				p.Expect("step")
				p.Abort()
			case 2:
				p.Error("CAPACITY_REACHED", "full")
			default:
				answer(p)
			}
		})
		_, err := env.Step(t.Context(), do(1))
		wantAs[*openenv.SessionLostError](t, "Step", err)
		wantIs(t, "Connect", env.Connect(t.Context()), openenv.ErrCapacity)
		_, err = env.Step(t.Context(), do(1))
		wantAs[*openenv.SessionLostError](t, "Step after a failed Connect", err)
		if err := env.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Error(err)
		}
	})
}

// Calls that wait when the session ends: those on the wire and those in the queue.
func TestDisconnectWithCallsWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, script := scripted(t, func(p *openenvtest.Peer) {
			if p.Number() == 1 {
				p.Silence()
			}
			answer(p)
		})
		fs := start(t, env, 0, 3)
		synctest.Wait()
		took := after(func() {
			if err := env.Disconnect(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if took > time.Second {
			t.Errorf("Disconnect took %v", took)
		}
		for i, f := range fs {
			_, err := f.Await(t.Context())
			if lost := as[*openenv.SessionLostError](t, "step", err); lost.Sent != (i == 0) {
				t.Errorf("step %d: %+v", i, lost)
			}
		}
		if script.Accepted() != 1 {
			t.Errorf("%d sockets", script.Accepted())
		}
		if err := env.Disconnect(t.Context()); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// The next dial waits until the old socket is closed: it holds a slot until then.
func TestRedialWaitsForTheOldSocket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		open := make(chan struct{}, 1) // a one-slot server
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			select {
			case open <- struct{}{}:
				defer func() { <-open }()
			default:
				p.Error("CAPACITY_REACHED", "one at a time")
				return
			}
			for {
				f, ok := p.Next()
				if !ok {
					return
				}
				if f.Type == "close" {
					time.Sleep(200 * time.Millisecond) // the environment takes its time to end
					return
				}
				respond(p, f)
			}
		})
		for range 10 {
			mustReset(t, env)
			if err := env.Disconnect(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Without waiting for anything: the client does.
		}
	})
}

// Disconnect's ctx bounds its wait, not the drop.
func TestDisconnectLeavesWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			reply(p)
			p.Deaf()
		}, openenv.WithCloseTimeout(10*time.Second), openenv.WithPingInterval(0))
		mustReset(t, env)
		took := after(func() {
			wantIs(t, "Disconnect", env.Disconnect(within(t, time.Second)), context.DeadlineExceeded)
		})
		if took != time.Second {
			t.Errorf("after %v", took)
		}
		wantIs(t, "what remains", env.Disconnect(within(t, time.Millisecond)), context.DeadlineExceeded)
	})
}
