package openenv_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// start starts n steps, the first with number from.
func start(t *testing.T, env *openenv.GenericClient, from, n int) []*stepFuture {
	t.Helper()
	fs := make([]*stepFuture, n)
	for i := range fs {
		fs[i] = env.Async().Step(do(from + i)).Start(t.Context())
	}
	return fs
}

// gated plays a server that reads at once and answers one frame for each signal.
func gated(seen *record, gate <-chan struct{}) func(*openenvtest.Peer) {
	return func(p *openenvtest.Peer) {
		frames := make(chan openenvtest.Frame, 1000)
		go func() {
			defer close(frames)
			for {
				f, ok := p.Next()
				if !ok || f.Type == "close" {
					return
				}
				seen.add(f)
				frames <- f
			}
		}()
		for f := range frames {
			<-gate
			respond(p, f)
		}
	}
}

// Up to n frames are on the wire; without the option one.
func TestPipeliningDepth(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opts  []openenv.Option
		depth int
	}{
		{"off", nil, 1},
		{"0", []openenv.Option{openenv.WithPipelining(0)}, 1},
		{"1", []openenv.Option{openenv.WithPipelining(1)}, 1},
		{"4", []openenv.Option{openenv.WithPipelining(4)}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var seen record
				gate := make(chan struct{})
				env, _ := scripted(t, gated(&seen, gate), tt.opts...)
				fs := start(t, env, 0, 10)
				for answered := range 10 {
					synctest.Wait()
					if want := min(answered+tt.depth, 10); seen.len() != want {
						t.Fatalf("%d answered, %d frames on the wire, want %d", answered, seen.len()-answered, want-answered)
					}
					gate <- struct{}{}
				}
				if _, err := openenv.AwaitAll(t.Context(), fs...); err != nil {
					t.Error(err)
				}
				close(gate)
			})
		})
	}
}

// At most 16 MiB of requests wait for replies, however many frames are allowed.
func TestPipeliningBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		gate := make(chan struct{})
		env, _ := scripted(t, gated(&seen, gate), openenv.WithPipelining(100), openenv.WithMessageTimeout(0), openenv.WithPingInterval(0))
		var fs []*stepFuture
		for _, size := range []int{9 << 20, 1 << 10, 9 << 20, 1 << 10} {
			fs = append(fs, env.Async().Step(openenv.Object{"x": strings.Repeat("x", size)}).Start(t.Context()))
		}
		synctest.Wait()
		if seen.len() != 2 {
			t.Errorf("%d frames on the wire, want the first two: the third is too much, the fourth has to wait for it", seen.len())
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
		for _, f := range fs {
			_, err := f.Await(t.Context())
			wantIs(t, "step", err, openenv.ErrClosed)
		}
		close(gate)
	})
}

// An error frame does not stop the steps behind it.
func TestPipeliningErrorFrame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			for range 4 {
				p.Expect("step")
			}
			p.Observation(`{"n":0}`)
			p.Error("EXECUTION_ERROR", "boom")
			p.Observation(`{"n":2}`)
			p.Observation(`{"n":3}`)
			answer(p)
		}, openenv.WithPipelining(4))
		fs := start(t, env, 0, 4)
		for i, f := range fs {
			res, err := f.Await(t.Context())
			if i == 1 {
				wantAs[*openenv.ServerError](t, "step 1", err)
			} else if err != nil || res.Observation["n"] != float64(i) {
				t.Errorf("step %d: %v, %v", i, res, err)
			}
		}
	})
}

// Reset, State and Defer bodies wait for earlier replies, and later steps for them.
func TestPipeliningBarriers(t *testing.T) {
	for name, barrier := range map[string]func(env *openenv.GenericClient, ctx context.Context) interface{ Done() <-chan struct{} }{
		"reset": func(env *openenv.GenericClient, ctx context.Context) interface{ Done() <-chan struct{} } {
			return env.Async().Reset().Start(ctx)
		},
		"state": func(env *openenv.GenericClient, ctx context.Context) interface{ Done() <-chan struct{} } {
			return env.Async().State().Start(ctx)
		},
		"defer": func(env *openenv.GenericClient, ctx context.Context) interface{ Done() <-chan struct{} } {
			return openenv.Defer(env, func(ctx context.Context) (int, error) {
				_, err := env.State(ctx)
				return 0, err
			}).Start(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var seen record
				gate := make(chan struct{})
				env, _ := scripted(t, gated(&seen, gate), openenv.WithPipelining(8))
				before := start(t, env, 0, 3)
				middle := barrier(env, t.Context())
				behind := start(t, env, 3, 3)
				for range 3 {
					synctest.Wait()
					if seen.len() != 3 {
						t.Fatalf("server received %v before the steps were answered", &seen)
					}
					gate <- struct{}{}
				}
				synctest.Wait()
				if seen.len() != 4 {
					t.Fatalf("server received %v while the barrier is on the wire", &seen)
				}
				gate <- struct{}{}
				<-middle.Done()
				synctest.Wait()
				if seen.len() != 7 {
					t.Fatalf("server received %v after the barrier", &seen)
				}
				close(gate)
				if _, err := openenv.AwaitAll(t.Context(), append(before, behind...)...); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A request's clock starts when it is the oldest unanswered one.
func TestPipeliningClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, (&record{}).play(time.Second), openenv.WithPipelining(8), openenv.WithMessageTimeout(1500*time.Millisecond))
		if _, err := openenv.AwaitAll(t.Context(), start(t, env, 0, 8)...); err != nil {
			t.Errorf("each reply came within its second: %v", err)
		}
	})
}

// A drop ends all that is in flight; what was not written is refused with the
// session, and never sent.
func TestPipeliningDrop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		gate := make(chan struct{})
		env, _ := scripted(t, gated(&seen, gate), openenv.WithPipelining(4), openenv.WithMessageTimeout(time.Second))
		fs := start(t, env, 0, 6)
		for i, f := range fs {
			_, err := f.Await(t.Context())
			wantIs(t, "step", err, openenv.ErrMessageTimeout)
			lost, isLost := errors.AsType[*openenv.SessionLostError](err)
			if isLost != (i > 0) || isLost && lost.Sent != (i < 4) {
				t.Errorf("step %d: %v (%+v)", i, err, lost)
			}
		}
		close(gate)
		synctest.Wait()
		if seen.len() != 4 {
			t.Errorf("server received %v", &seen)
		}
	})
}

// A cancelled step that is kept still counts as in flight until its reply comes.
func TestPipeliningKeepOnCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		gate := make(chan struct{})
		env, _ := scripted(t, gated(&seen, gate), openenv.WithPipelining(2), openenv.WithKeepOnCancel())
		ctx, cancel := context.WithCancel(t.Context())
		left := env.Async().Step(do(0)).Start(ctx)
		fs := start(t, env, 1, 3)
		synctest.Wait()
		cancel()
		_, err := left.Await(t.Context())
		wantIs(t, "cancelled step", err, openenv.ErrAbandoned)
		synctest.Wait()
		if seen.len() != 2 {
			t.Errorf("server received %v", &seen)
		}
		close(gate)
		values, err := openenv.AwaitAll(t.Context(), fs...)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if v.Observation["n"] != float64(i+1) {
				t.Errorf("step %d got %v", i+1, v.Observation)
			}
		}
	})
}
