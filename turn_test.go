package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// aroundStep makes an interceptor that runs f around Step and lets others pass.
func aroundStep(f func(ctx context.Context, next func(context.Context) error) error) openenv.Option {
	return openenv.WithInterceptor(func(ctx context.Context, call *openenv.Call, next func(context.Context) error) error {
		if call.Op != "step" {
			return next(ctx)
		}
		return f(ctx, next)
	})
}

func goroutineID() string {
	buf := make([]byte, 64)
	id, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
	return id
}

// A blocking verb does its work on the goroutine that calls it.
func TestBlockingCallRunsOnTheCallersGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ran := ""
		env, _ := scripted(t, answer, aroundStep(func(ctx context.Context, next func(context.Context) error) error {
			ran = goroutineID()
			return next(ctx)
		}))
		if _, err := env.Step(t.Context(), do(1)); err != nil || ran != goroutineID() {
			t.Errorf("Step ran on %q, called on %q: %v", ran, goroutineID(), err)
		}
		if _, err := env.Async().Step(do(1)).Get(t.Context()); err != nil || ran != goroutineID() {
			t.Errorf("Get ran on %q, called on %q: %v", ran, goroutineID(), err)
		}
	})
}

// Inside a turn the verbs of the same client run at once, whatever waits outside,
// and claim nothing.
func TestTurnInsideAnInterceptor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		var env *openenv.GenericClient
		env, _ = scripted(t, seen.play(time.Second), aroundStep(func(ctx context.Context, next func(context.Context) error) error {
			if _, err := env.State(ctx); err != nil {
				t.Errorf("before: %v", err)
			}
			if err := next(ctx); err != nil {
				return err
			}
			// The other face, from another goroutine.
			done := make(chan error)
			go func() {
				_, err := env.Async().State().Start(ctx).Await(ctx)
				done <- err
			}()
			if err := <-done; err != nil {
				t.Errorf("after: %v", err)
			}
			return nil
		}))
		mustReset(t, env)
		waiting := make(chan error, 1)
		go func() {
			time.Sleep(time.Millisecond)
			_, err := env.Reset(t.Context())
			waiting <- err
		}()
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; err != nil {
			t.Fatal(err)
		}
		seen.want(t, "reset", "state", `step{"n":1}`, "state", "reset")
		if env.ExecMode() != openenv.ExecBlocking {
			t.Errorf("mode is %v", env.ExecMode())
		}
	})
}

// A verb written with Defer is one turn for all its calls.
func TestTurnInsideADeferBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(time.Second))
		body := openenv.Defer(env, func(ctx context.Context) (string, error) {
			if _, err := env.Reset(ctx); err != nil {
				return "", err
			}
			_, err := env.Async().Step(do(1)).Await(ctx)
			if err == nil {
				_, err = env.Step(ctx, do(2))
			}
			return "done", err
		}).Start(t.Context())
		behind := env.Async().Step(do(3)).Start(t.Context())
		if v, err := body.Await(t.Context()); v != "done" || err != nil {
			t.Fatalf("%v, %v", v, err)
		}
		if _, err := behind.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen.want(t, "reset", `step{"n":1}`, `step{"n":2}`, `step{"n":3}`)
	})
}

// Several levels deep, and through a turn of another client, a call never queues
// behind itself.
func TestTurnsNest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		a, _ := scripted(t, seen.play(0))
		b, _ := scripted(t, answer)
		var down func(ctx context.Context, level int) error
		down = func(ctx context.Context, level int) error {
			if level == 0 {
				_, err := a.Step(ctx, do(1))
				return err
			}
			env := a
			if level%2 == 0 {
				env = b
			}
			_, err := openenv.Defer(env, func(ctx context.Context) (int, error) { return 0, down(ctx, level-1) }).Await(ctx)
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := down(ctx, 7); err != nil {
			t.Fatal(err)
		}
		seen.want(t, `step{"n":1}`)
	})
}

// Futures started inside a turn keep their order, too.
func TestOrderInsideATurn(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T) {
			var seen record
			env, _ := scripted(t, seen.play(0))
			var want []string
			_, err := openenv.Defer(env, func(ctx context.Context) (int, error) {
				var fs []*stepFuture
				for i := range 20 {
					fs = append(fs, env.Async().Step(do(i)).Start(ctx))
					want = append(want, fmt.Sprintf(`step{"n":%d}`, i))
				}
				_, err := openenv.AwaitAll(ctx, fs...)
				return 0, err
			}).Await(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			seen.want(t, want...)
		})
	}
}

// When the body has returned the turn is over: a ctx that was kept is ordinary.
func TestLeakedTurnIsOrdinary(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(time.Second))
		var kept context.Context
		if _, err := openenv.Defer(env, func(ctx context.Context) (int, error) {
			kept = context.WithoutCancel(ctx) //nolint:fatcontext // what is kept is the subject of the test
			return 0, nil
		}).Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if env.ExecMode() != openenv.ExecBlocking {
			t.Fatalf("mode is %v", env.ExecMode())
		}
		_, err := env.Async().State().Await(kept)
		wantAs[*openenv.ExecModeError](t, "async call with a kept ctx", err)
		ahead := make(chan error, 1)
		go func() { _, err := env.Reset(t.Context()); ahead <- err }()
		synctest.Wait()
		took := after(func() {
			if _, err := env.State(kept); err != nil {
				t.Error(err)
			}
		})
		if took != 2*time.Second || <-ahead != nil {
			t.Errorf("a kept ctx jumped the queue: State took %v", took)
		}
		seen.want(t, "reset", "state")
	})
}

// Calls that wait inside a turn when it ends become ordinary ones; the one in
// progress keeps the place until it has ended, and the caller is not kept waiting.
func TestCallsLeftInsideATurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(time.Second))
		var inside []*stepFuture
		took := after(func() {
			_, err := openenv.Defer(env, func(ctx context.Context) (int, error) {
				ctx = context.WithoutCancel(ctx)
				for i := range 3 {
					inside = append(inside, env.Async().Step(do(i)).Start(ctx))
				}
				time.Sleep(time.Millisecond)
				return 0, nil
			}).Await(t.Context())
			if err != nil {
				t.Error(err)
			}
		})
		if took != time.Millisecond {
			t.Errorf("the body's caller waited %v", took)
		}
		behind := env.Async().Step(do(3)).Start(t.Context())
		if _, err := openenv.AwaitAll(t.Context(), append(inside, behind)...); err != nil {
			t.Error(err)
		}
		seen.want(t, `step{"n":0}`, `step{"n":1}`, `step{"n":2}`, `step{"n":3}`)
	})
}

// In a blocking client the async calls left inside lose their turn and are refused.
func TestCallsLeftInsideClaimTheirFace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, _ := scripted(t, seen.play(time.Second))
		var first, second *stepFuture
		_, err := openenv.Defer(env, func(ctx context.Context) (int, error) {
			ctx = context.WithoutCancel(ctx)
			first, second = env.Async().Step(do(1)).Start(ctx), env.Async().Step(do(2)).Start(ctx)
			return 0, nil
		}).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Await(t.Context()); err != nil {
			t.Errorf("the call in progress: %v", err)
		}
		_, err = second.Await(t.Context())
		wantAs[*openenv.ExecModeError](t, "the call that waited", err)
		seen.want(t, `step{"n":1}`)
	})
}

// An interceptor that calls the operation it wraps is refused, however it does it.
func TestInterceptorCallsItsOwnOperation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		var env *openenv.GenericClient
		env, _ = scripted(t, seen.play(0), aroundStep(func(ctx context.Context, next func(context.Context) error) error {
			for name, call := range map[string]func() error{
				"blocking": func() error { _, err := env.Step(ctx, do(9)); return err },
				"async":    func() error { _, err := env.Async().Step(do(9)).Await(ctx); return err },
				"deferred": func() error {
					_, err := openenv.Defer(env, func(ctx context.Context) (int, error) { _, err := env.Step(ctx, do(9)); return 0, err }).Await(ctx)
					return err
				},
			} {
				if err := call(); err == nil || !strings.Contains(err.Error(), "operation it wraps") {
					t.Errorf("%s: %v", name, err)
				}
			}
			return next(ctx)
		}))
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Fatal(err)
		}
		seen.want(t, `step{"n":1}`)
	})
}

// A caller whose ctx ends leaves at once, although a call inside its turn goes on.
func TestCallerLeavesWhileACallInsideGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var env *openenv.GenericClient
		inside := make(chan error, 1)
		env, _ = scripted(t, (&record{}).play(time.Hour), openenv.WithMessageTimeout(0), openenv.WithPingInterval(0),
			aroundStep(func(ctx context.Context, _ func(context.Context) error) error {
				go func() { _, err := env.State(context.WithoutCancel(ctx)); inside <- err }()
				synctest.Wait()
				<-ctx.Done()
				return ctx.Err()
			}))
		took := after(func() {
			_, err := env.Step(within(t, time.Second), do(1))
			wantIs(t, "Step", err, context.DeadlineExceeded)
		})
		if took != time.Second {
			t.Errorf("Step took %v", took)
		}
		if err := <-inside; err != nil {
			t.Errorf("the call inside: %v", err)
		}
	})
}

// Close ends a body's ctx with ErrClosed as its cause, and its future with ErrClosed.
func TestCloseEndsDeferBodies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, answer)
		var cause error
		f := openenv.Defer(env, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return 0, ctx.Err()
		})
		awaited := make(chan error, 1)
		go func() { _, err := f.Await(t.Context()); awaited <- err }()
		synctest.Wait()
		if err := env.Close(); err != nil {
			t.Error(err)
		}
		wantIs(t, "Await", <-awaited, openenv.ErrClosed)
		wantIs(t, "cause", cause, openenv.ErrClosed)
	})
}

// A derived client embeds *Client and shadows what must be of its own type; Defer
// gives its verbs the second face.
type shouter struct {
	*openenv.GenericClient
}

type asyncShouter struct {
	*openenv.Async[openenv.Object, openenv.Object, openenv.Object]
	s shouter
}

func (s shouter) Shout(ctx context.Context, text string) (string, error) {
	res, err := s.Step(ctx, openenv.Object{"text": strings.ToUpper(text)})
	if err != nil {
		return "", err
	}
	return res.Observation["text"].(string), nil
}

func (s shouter) Async() asyncShouter { return asyncShouter{s.GenericClient.Async(), s} }

func (s shouter) NewSession(ctx context.Context) (shouter, error) {
	child, err := s.GenericClient.NewSession(ctx)
	return shouter{child}, err
}

func (a asyncShouter) Shout(text string) *openenv.Future[string] {
	return openenv.Defer(a.s, func(ctx context.Context) (string, error) { return a.s.Shout(ctx, text) })
}

func TestDerivedClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, answer)
		parent := shouter{env}
		if text, err := parent.Shout(t.Context(), "hi"); text != "HI" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		child, err := parent.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		texts, err := openenv.AwaitAll(t.Context(), child.Async().Shout("a"), child.Async().Shout("b"))
		if err != nil || fmt.Sprint(texts) != "[A B]" {
			t.Fatalf("%v, %v", texts, err)
		}
		if _, err := child.Async().State().Await(t.Context()); err != nil {
			t.Errorf("an inherited verb: %v", err)
		}
		_, err = parent.Async().Shout("late").Await(t.Context())
		wantAs[*openenv.ExecModeError](t, "the other face of a blocking client", err)
	})
}

// Pipelining: once a step is written, what its interceptor calls is sent behind what
// is on the wire already, and still does not wait for its own step.
func TestTurnInsideAPipelinedStep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var env *openenv.GenericClient
		env, _ = scripted(t, (&record{}).play(time.Second), openenv.WithPipelining(4),
			aroundStep(func(ctx context.Context, next func(context.Context) error) error {
				if err := next(ctx); err != nil {
					return err
				}
				_, err := env.State(ctx)
				return err
			}))
		fs := make([]*stepFuture, 8)
		for i := range fs {
			fs[i] = env.Async().Step(do(i))
		}
		values, err := openenv.AwaitAll(within(t, time.Minute), fs...)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if v.Observation["n"] != float64(i) {
				t.Errorf("step %d: %v", i, v)
			}
		}
	})
}

var errVeto = errors.New("veto")

// What an interceptor can do to its round trip, and what it cannot.
func TestInterceptorOutcomes(t *testing.T) {
	var kept func(context.Context) error
	type roundTrip func(ctx context.Context, call *openenv.Call, next func(context.Context) error) error
	for _, tt := range []struct {
		name      string
		intercept roundTrip
		reply     func(*openenvtest.Peer)
		want      string // in the error, "" for a result
		sent      int
	}{
		{"passes on", func(ctx context.Context, _ *openenv.Call, next func(context.Context) error) error { return next(ctx) }, nil, "", 1},
		{"vetoes", func(context.Context, *openenv.Call, func(context.Context) error) error { return errVeto }, nil, "veto", 0},
		{"forgets next", func(context.Context, *openenv.Call, func(context.Context) error) error { return nil }, nil, "without calling next", 0},
		{"calls next twice", func(ctx context.Context, _ *openenv.Call, next func(context.Context) error) error {
			if err := next(ctx); err != nil {
				return err
			}
			return next(ctx)
		}, nil, "twice", 1},
		{"replaces the error", func(ctx context.Context, _ *openenv.Call, next func(context.Context) error) error {
			_ = next(ctx)
			return errVeto
		}, nil, "veto", 1},
		{"swallows an error frame", func(ctx context.Context, _ *openenv.Call, next func(context.Context) error) error {
			_ = next(ctx)
			return nil
		}, func(p *openenvtest.Peer) { p.Error("EXECUTION_ERROR", "boom") }, "boom", 1},
		{"swallows a lost connection", func(ctx context.Context, _ *openenv.Call, next func(context.Context) error) error {
			_ = next(ctx)
			return nil
		}, func(p *openenvtest.Peer) { p.Abort() }, "lost", 1},
		{"keeps next", func(_ context.Context, _ *openenv.Call, next func(context.Context) error) error {
			kept = next
			return nil
		}, nil, "without calling next", 0},
		{"returns before next", func(ctx context.Context, _ *openenv.Call, next func(context.Context) error) error {
			go func() { _ = next(ctx) }()
			synctest.Wait()
			return nil
		}, nil, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var seen record
				env, _ := scripted(t, func(p *openenvtest.Peer) {
					for {
						f, ok := p.Next()
						if !ok || f.Type == "close" {
							return
						}
						seen.add(f)
						if tt.reply != nil {
							tt.reply(p)
							continue
						}
						respond(p, f)
					}
				}, openenv.WithInterceptor(openenv.Interceptor(tt.intercept)))
				res, err := env.Step(t.Context(), do(1))
				if kept != nil {
					if err := kept(t.Context()); err == nil {
						t.Error("next still works after the interceptor has returned")
					}
					kept = nil
				}
				switch {
				case tt.want == "" && (err != nil || res.Observation["n"] != 1.0):
					t.Errorf("%v, %v", res, err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("%v, want %q", err, tt.want)
				}
				synctest.Wait()
				if seen.len() != tt.sent {
					t.Errorf("server received %v", &seen)
				}
			})
		})
	}
}

// The call that an interceptor sees, raw frames and times included; the first
// interceptor is the outermost.
func TestInterceptorSeesTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log []string
		note := func(name string) openenv.Interceptor {
			return func(ctx context.Context, call *openenv.Call, next func(context.Context) error) error {
				log = append(log, name+" before "+string(call.Request))
				if call.Reply != nil || call.Started.IsZero() || !call.Sent.IsZero() {
					t.Errorf("before: %+v", call)
				}
				err := next(ctx)
				log = append(log, name+" after "+string(call.Reply))
				if call.Attempt != 1 || call.SessionID != "" || call.Op != "step" || call.Received.Sub(call.Sent) != time.Second {
					t.Errorf("after: %+v", call)
				}
				return err
			}
		}
		env, _ := scripted(t, (&record{}).play(time.Second), openenv.WithInterceptor(note("outer"), note("inner")))
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Fatal(err)
		}
		want := []string{
			`outer before {"type":"step","data":{"n":1}}`,
			`inner before {"type":"step","data":{"n":1}}`,
			`inner after {"type":"observation","data":{"observation":{"n":1},"reward":null,"done":false}}`,
			`outer after {"type":"observation","data":{"observation":{"n":1},"reward":null,"done":false}}`,
		}
		if fmt.Sprint(log) != fmt.Sprint(want) {
			t.Errorf("log:\n%s\nwant:\n%s", strings.Join(log, "\n"), strings.Join(want, "\n"))
		}
	})
}
