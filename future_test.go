package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

type stepFuture = openenv.Future[openenv.StepResult[openenv.Object]]

// The futures table, cell by cell: what each method does in each state.
func TestFutureTable(t *testing.T) {
	type cell struct {
		state, method string
		touch         func(ctx context.Context, f *stepFuture) error
		err           error            // nil: a result
		mode          openenv.ExecMode // afterwards
		sent          int              // frames at the server afterwards
	}
	start := func(ctx context.Context, f *stepFuture) error {
		if f.Start(ctx) != f {
			return errors.New("Start does not return its future")
		}
		<-f.Done()
		_, err := f.Result()
		return err
	}
	await := func(ctx context.Context, f *stepFuture) error { _, err := f.Await(ctx); return err }
	get := func(ctx context.Context, f *stepFuture) error { _, err := f.Get(ctx); return err }
	result := func(_ context.Context, f *stepFuture) error { _, err := f.Result(); return err }
	done := func(_ context.Context, f *stepFuture) error {
		select {
		case <-f.Done():
			return nil
		default:
			return openenv.ErrPending
		}
	}
	modeError := &openenv.ExecModeError{}
	for _, tt := range []cell{
		{"not started", "Start", start, nil, openenv.ExecAsync, 1},
		{"not started", "Await", await, nil, openenv.ExecAsync, 1},
		{"not started", "Get", get, nil, openenv.ExecBlocking, 1},
		{"not started", "Result", result, openenv.ErrPending, openenv.ExecNone, 0},
		{"not started", "Done", done, openenv.ErrPending, openenv.ExecNone, 0},
		{"started", "Start", start, nil, openenv.ExecAsync, 1},
		{"started", "Await", await, nil, openenv.ExecAsync, 1},
		{"started", "Get", get, modeError, openenv.ExecAsync, 1},
		{"started", "Result", result, openenv.ErrPending, openenv.ExecAsync, 1},
		{"started", "Done", done, openenv.ErrPending, openenv.ExecAsync, 1},
		{"settled", "Start", start, nil, openenv.ExecAsync, 1},
		{"settled", "Await", await, nil, openenv.ExecAsync, 1},
		{"settled", "Get", get, nil, openenv.ExecAsync, 1},
		{"settled", "Result", result, nil, openenv.ExecAsync, 1},
		{"settled", "Done", done, nil, openenv.ExecAsync, 1},
	} {
		t.Run(tt.state+"/"+tt.method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var seen record
				env, _ := scripted(t, seen.play(time.Second))
				f := env.Async().Step(do(1))
				if tt.state != "not started" {
					f.Start(t.Context())
					synctest.Wait()
				}
				if tt.state == "settled" {
					<-f.Done()
				}
				err := tt.touch(t.Context(), f)
				switch {
				case errors.Is(tt.err, modeError):
					if refused := as[*openenv.ExecModeError](t, tt.method, err); !refused.Pending || refused.Op != "step" {
						t.Errorf("error says %+v", refused)
					}
				case !errors.Is(err, tt.err):
					t.Errorf("%v, want %v", err, tt.err)
				}
				if env.ExecMode() != tt.mode {
					t.Errorf("mode is %v, want %v", env.ExecMode(), tt.mode)
				}
				synctest.Wait()
				if seen.len() != tt.sent {
					t.Errorf("server received %v, want %d frames", &seen, tt.sent)
				}
				if tt.state == "started" {
					if res, err := f.Await(t.Context()); err != nil || res.Observation["n"] != 1.0 {
						t.Errorf("outcome: %v, %v", res, err)
					}
				}
			})
		})
	}
}

// The ctx of Start and of a running Await bounds the run, that of a waiting Await
// only its wait.
func TestFutureContexts(t *testing.T) {
	t.Run("waiting", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var seen record
			env, _ := scripted(t, seen.play(time.Second))
			f := env.Async().Step(do(1)).Start(t.Context())
			if _, err := f.Await(within(t, time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, openenv.ErrAbandoned) {
				t.Errorf("waiter whose ctx ended: %v", err)
			}
			if res, err := f.Await(t.Context()); err != nil || res.Observation["n"] != 1.0 {
				t.Errorf("the run went on: %v, %v", res, err)
			}
		})
	})
	for _, tt := range []struct {
		name string
		run  func(ctx context.Context, f *stepFuture)
	}{
		{"Start", func(ctx context.Context, f *stepFuture) { f.Start(ctx) }},
		{"Await", func(ctx context.Context, f *stepFuture) {
			if _, err := f.Await(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, openenv.ErrAbandoned) {
				panic(fmt.Sprintf("the runner's own error: %v", err))
			}
		}},
		{"Get", func(ctx context.Context, f *stepFuture) {
			if _, err := f.Get(ctx); !errors.Is(err, context.Canceled) {
				panic(fmt.Sprintf("the runner's own error: %v", err))
			}
		}},
	} {
		t.Run("running/"+tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var seen record
				env, _ := scripted(t, seen.play(time.Hour))
				f := env.Async().Step(do(1))
				ctx, cancel := context.WithCancel(t.Context())
				go tt.run(ctx, f)
				synctest.Wait()
				waited := make(chan error, 1)
				go func() {
					_, err := f.Await(t.Context())
					waited <- err
				}()
				synctest.Wait()
				cancel()
				if err := <-waited; !errors.Is(err, openenv.ErrAbandoned) || errors.Is(err, context.Canceled) {
					t.Errorf("another waiter: %v, want ErrAbandoned and nobody's context.Canceled", err)
				}
				ended, stop := context.WithCancel(t.Context())
				stop()
				if _, err := f.Await(ended); !errors.Is(err, openenv.ErrAbandoned) || !errors.Is(err, context.Canceled) {
					t.Errorf("a waiter whose ctx has ended, too: %v", err)
				}
			})
		})
	}
}

// At most once, however many touch it at the same time, and one outcome for all.
func TestFutureRunsOnce(t *testing.T) {
	for _, fail := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			var runs atomic.Int32
			boom := errors.New("boom")
			f := openenv.Lazy(func(context.Context) (int32, error) {
				time.Sleep(time.Second)
				n := runs.Add(1)
				if fail {
					return n, boom
				}
				return n, nil
			})
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					var err error
					var n int32
					switch i % 3 {
					case 0:
						n, err = f.Await(t.Context())
					case 1:
						n, err = f.Start(t.Context()).Await(t.Context())
					default:
						n, err = f.Get(t.Context())
					}
					if n != 1 || errors.Is(err, boom) != fail {
						t.Errorf("%d, %v", n, err)
					}
				})
			}
			wg.Wait()
			if runs.Load() != 1 {
				t.Errorf("ran %d times", runs.Load())
			}
		})
	}
}

// An error frame is an outcome like any other, and is not asked for again.
func TestFutureKeepsItsError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			p.Expect("step")
			p.Error("EXECUTION_ERROR", "boom")
			answer(p)
		})
		f := env.Async().Step(do(1))
		_, first := f.Await(t.Context())
		_, second := f.Await(t.Context())
		if as[*openenv.ServerError](t, "Await", first).Message != "boom" || !errors.Is(second, first) {
			t.Errorf("%v, then %v", first, second)
		}
	})
}

// A refused claim is the outcome, and nothing is sent for it later.
func TestRefusedClaimIsTheOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(0))
		mustReset(t, env)
		f := env.Async().Step(do(1)).Start(t.Context())
		for range 2 {
			_, err := f.Result()
			wantAs[*openenv.ExecModeError](t, "Result", err)
			_, err = f.Get(t.Context())
			wantAs[*openenv.ExecModeError](t, "Get", err)
		}
		synctest.Wait()
		seen.want(t, "reset")
	})
}

// Close settles started futures; one that nobody touched says so when it is touched.
func TestCloseAndFutures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) { p.Silence() })
		release := make(chan struct{})
		stubborn := openenv.Defer(env, func(context.Context) (int, error) { <-release; return 1, nil }).Start(t.Context())
		started := env.Async().Step(do(1)).Start(t.Context())
		untouched := env.Async().Step(do(2))
		gotten := env.Async().State()
		synctest.Wait()
		if err := env.Close(); err == nil || !strings.Contains(err.Error(), "did not end") {
			t.Errorf("Close with a function that ignores its ctx: %v", err)
		}
		for name, f := range map[string]func() error{
			"started":   func() error { _, err := started.Result(); return err },
			"stubborn":  func() error { _, err := stubborn.Result(); return err },
			"untouched": func() error { _, err := untouched.Await(t.Context()); return err },
			"gotten":    func() error { _, err := gotten.Get(t.Context()); return err },
			"connect":   func() error { _, err := env.Async().Connect().Await(t.Context()); return err },
			"session":   func() error { _, err := env.Async().NewSession().Start(t.Context()).Await(t.Context()); return err },
		} {
			wantIs(t, name, f(), openenv.ErrClosed)
		}
		close(release)
		synctest.Wait()
		if err := env.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if v, err := stubborn.Result(); v != 0 || !errors.Is(err, openenv.ErrClosed) {
			t.Errorf("a settled future changed to %v, %v", v, err)
		}
	})
}

// The action is encoded when it is described: the caller may reuse its map.
func TestActionIsEncodedAtDescribing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(0))
		action := openenv.Object{"n": 1}
		first := env.Async().Step(action)
		action["n"] = 2
		second := env.Async().Step(action)
		action["n"] = 3
		if _, err := openenv.AwaitAll(t.Context(), first, second); err != nil {
			t.Fatal(err)
		}
		seen.want(t, `step{"n":1}`, `step{"n":2}`)
	})
}

// What cannot be encoded is the outcome, of the blocking verb's error, too.
func TestEncodingFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(0))
		bad := openenv.Object{"f": func() {}}
		f := env.Async().Step(bad)
		<-f.Done()
		for name, err := range map[string]error{
			"Result": func() error { _, err := f.Result(); return err }(),
			"Await":  func() error { _, err := f.Await(t.Context()); return err }(),
			"Get":    func() error { _, err := f.Get(t.Context()); return err }(),
			"Step":   func() error { _, err := env.Step(t.Context(), bad); return err }(),
			"twice": func() error {
				_, err := env.Reset(t.Context(), openenv.Seed(1), openenv.Param("seed", 2))
				return err
			}(),
			"no name": func() error { _, err := env.Async().Reset(openenv.Param("", 2)).Await(t.Context()); return err }(),
			"nil map": func() error { _, err := env.Step(t.Context(), nil); return err }(),
		} {
			if name == "nil map" {
				continue // null or an empty object: what the codec makes of it is its own matter
			}
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		for _, frame := range seen.frames {
			if frame != "step{}" && frame != "stepnull" {
				t.Errorf("server received %s", frame)
			}
		}
	})
}

// A function that panics leaves an outcome for those who wait, not a hang.
func TestFutureOfAFunctionThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, answer)
		f := openenv.Defer(env, func(context.Context) (int, error) { panic("boom") })
		func() {
			defer func() { _ = recover() }()
			_, _ = f.Await(t.Context())
		}()
		if _, err := f.Await(t.Context()); err == nil {
			t.Error("no error")
		}
		if _, err := env.Async().State().Await(t.Context()); err != nil {
			t.Errorf("the turn was not given back: %v", err)
		}
		gone := openenv.Defer(env, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }).Start(t.Context())
		if _, err := gone.Await(t.Context()); err == nil {
			t.Error("no error for a goroutine that ended")
		}
	})
}

// Futures started in a loop reach the server in that order.
func TestStartedFuturesKeepTheirOrder(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T) {
			var seen record
			env, _ := scripted(t, seen.play(0))
			var want []string
			fs := make([]*stepFuture, 20)
			for i := range fs {
				fs[i] = env.Async().Step(do(i)).Start(t.Context())
				want = append(want, fmt.Sprintf(`step{"n":%d}`, i))
			}
			for i, f := range fs {
				if res, err := f.Await(t.Context()); err != nil || res.Observation["n"] != float64(i) {
					t.Fatalf("future %d: %v, %v", i, res, err)
				}
			}
			seen.want(t, want...)
		})
	}
}

// Awaiting in another order than starting changes nothing.
func TestAwaitOrderDoesNotMatter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(time.Millisecond))
		fs := make([]*stepFuture, 10)
		for i := range fs {
			fs[i] = env.Async().Step(do(i)).Start(t.Context())
		}
		for i, f := range slices.Backward(fs) {
			if res, err := f.Await(t.Context()); err != nil || res.Observation["n"] != float64(i) {
				t.Fatalf("future %d: %v, %v", i, res, err)
			}
		}
	})
}

// Sixty-four sessions opened at once: NewSession takes no place in the queue.
func TestNewSessionFuturesRunInParallel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, script := scripted(t, func(p *openenvtest.Peer) {
			f := p.Expect("state")
			time.Sleep(time.Second) // a slow factory
			respond(p, f)
			answer(p)
		})
		fs := make([]*openenv.Future[*openenv.GenericClient], 64)
		for i := range fs {
			fs[i] = env.Async().NewSession()
		}
		took := after(func() {
			if _, err := openenv.AwaitAll(t.Context(), fs...); err != nil {
				t.Error(err)
			}
		})
		if took != time.Second || script.Accepted() != 64 {
			t.Errorf("%d sessions in %v, want 64 in 1s", script.Accepted(), took)
		}
	})
}
