package openenv_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// use is one way to touch a client.
type use struct {
	name string
	do   func(ctx context.Context, env *openenv.GenericClient) error
}

var (
	blockingStep = use{"Step", func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := env.Step(ctx, do(1))
		return err
	}}
	asyncStep = use{"Async().Step().Await", func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := env.Async().Step(do(1)).Await(ctx)
		return err
	}}
	startedStep = use{"Async().Step().Start.Await", func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := env.Async().Step(do(1)).Start(ctx).Await(ctx)
		return err
	}}
	gotStep = use{"Async().Step().Get", func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := env.Async().Step(do(1)).Get(ctx)
		return err
	}}
	described = use{"describing", func(_ context.Context, env *openenv.GenericClient) error {
		env.Async().Step(do(1))
		env.Async().Reset()
		env.Async().State()
		env.Async().Connect()
		return nil
	}}
	deferred = use{"Defer", func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := openenv.Defer(env, func(ctx context.Context) (int, error) {
			_, err := env.Step(ctx, do(1))
			return 0, err
		}).Await(ctx)
		return err
	}}
	lazy = use{"Lazy", func(ctx context.Context, _ *openenv.GenericClient) error {
		_, err := openenv.Lazy(func(context.Context) (int, error) { return 1, nil }).Await(ctx)
		return err
	}}
)

func free(name string, f func(ctx context.Context, env *openenv.GenericClient) error) use {
	return use{name, f}
}

// The first call that runs decides for life, with one way out.
func TestExecModeTransitions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		uses   []use
		last   use
		want   openenv.ExecMode // after the last use
		refuse bool
	}{
		{"new client", nil, described, openenv.ExecNone, false},
		{"blocking verb claims", nil, blockingStep, openenv.ExecBlocking, false},
		{"Await claims async", nil, asyncStep, openenv.ExecAsync, false},
		{"Start claims async", nil, startedStep, openenv.ExecAsync, false},
		{"Get claims blocking", nil, gotStep, openenv.ExecBlocking, false},
		{"Defer claims for its body", nil, deferred, openenv.ExecAsync, false},
		{"Lazy claims nothing", nil, lazy, openenv.ExecNone, false},
		{"blocking to async by Await is refused", []use{blockingStep}, asyncStep, openenv.ExecBlocking, true},
		{"blocking to async by Start is refused", []use{blockingStep}, startedStep, openenv.ExecBlocking, true},
		{"blocking to async by Defer is refused", []use{blockingStep}, deferred, openenv.ExecBlocking, true},
		{"blocking to Get goes on", []use{blockingStep}, gotStep, openenv.ExecBlocking, false},
		{"async to blocking hands over", []use{asyncStep}, blockingStep, openenv.ExecBlocking, false},
		{"async to Get hands over", []use{startedStep}, gotStep, openenv.ExecBlocking, false},
		{"handed over once, for life", []use{asyncStep, blockingStep}, asyncStep, openenv.ExecBlocking, true},
		{"Connect claims nothing", nil, free("Connect", func(ctx context.Context, env *openenv.GenericClient) error { return env.Connect(ctx) }), openenv.ExecNone, false},
		{"Disconnect claims nothing", nil, free("Disconnect", func(ctx context.Context, env *openenv.GenericClient) error { return env.Disconnect(ctx) }), openenv.ExecNone, false},
		{"Health claims nothing", nil, free("Health", func(ctx context.Context, env *openenv.GenericClient) error {
			_, err := env.Health(ctx)
			return err
		}), openenv.ExecNone, false},
		{"NewSession claims nothing and starts unclaimed", []use{blockingStep}, free("NewSession", func(ctx context.Context, env *openenv.GenericClient) error {
			child, err := env.NewSession(ctx)
			if err == nil {
				_, err = child.Async().Step(do(1)).Await(ctx)
			}
			return err
		}), openenv.ExecBlocking, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var seen record
				env, _ := scripted(t, seen.play(0))
				for _, u := range tt.uses {
					if err := u.do(t.Context(), env); err != nil {
						t.Fatalf("%s: %v", u.name, err)
					}
				}
				before := seen.len()
				err := tt.last.do(t.Context(), env)
				if env.ExecMode() != tt.want {
					t.Errorf("mode is %v, want %v", env.ExecMode(), tt.want)
				}
				if !tt.refuse {
					if err != nil {
						t.Fatalf("%s: %v", tt.last.name, err)
					}
					return
				}
				refused := as[*openenv.ExecModeError](t, tt.last.name, err)
				if refused.Locked != openenv.ExecBlocking || refused.Attempted != openenv.ExecAsync || refused.Pending {
					t.Errorf("error says %+v", refused)
				}
				synctest.Wait()
				if seen.len() != before {
					t.Errorf("a refused call was sent: %v", &seen)
				}
			})
		})
	}
}

// A blocking verb may take over only when no future is started and unfinished.
func TestHandOverWaitsForFutures(t *testing.T) {
	for _, take := range []use{blockingStep, gotStep} {
		t.Run(take.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				var seen record
				env, script := scripted(t, func(p *openenvtest.Peer) {
					for {
						f, ok := p.Next()
						if !ok || f.Type == "close" {
							return
						}
						seen.add(f)
						<-gate
						respond(p, f)
					}
				})
				pending := env.Async().Reset().Start(t.Context())
				synctest.Wait()
				refused := as[*openenv.ExecModeError](t, take.name, take.do(t.Context(), env))
				if !refused.Pending || refused.Locked != openenv.ExecAsync || refused.Attempted != openenv.ExecBlocking {
					t.Errorf("error says %+v", refused)
				}
				seen.want(t, "reset")
				close(gate)
				if _, err := pending.Await(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := take.do(t.Context(), env); err != nil {
					t.Fatalf("hand-over: %v", err)
				}
				seen.want(t, "reset", `step{"n":1}`)
				if script.Accepted() != 1 {
					t.Errorf("%d sockets, want the same one", script.Accepted())
				}
			})
		})
	}
}

// NewSession futures do not stand in the way of a hand-over.
func TestFreeFuturesDoNotBlockHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			if p.Number() > 1 {
				<-gate
			}
			answer(p)
		})
		if err := asyncStep.do(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		child := env.Async().NewSession().Start(t.Context())
		synctest.Wait()
		if err := blockingStep.do(t.Context(), env); err != nil {
			t.Errorf("blocking step while a session is being opened: %v", err)
		}
		close(gate)
		if _, err := child.Await(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestExecModeErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  openenv.ExecModeError
		want []string
	}{
		{openenv.ExecModeError{Op: "step", URL: "ws://h/ws", Locked: openenv.ExecBlocking, Attempted: openenv.ExecAsync},
			[]string{"step ws://h/ws: ", "async call", "blocking mode", "nothing was sent", "NewSession"}},
		{openenv.ExecModeError{Op: "state", URL: "ws://h/ws", Locked: openenv.ExecAsync, Attempted: openenv.ExecBlocking, Pending: true},
			[]string{"state ws://h/ws: ", "blocking call", "unfinished", "nothing was sent", "await", "NewSession"}},
	} {
		for _, part := range tt.want {
			if !strings.Contains(tt.err.Error(), part) {
				t.Errorf("%q does not say %q", tt.err.Error(), part)
			}
		}
	}
}

func TestFacesAreTheSamePointers(t *testing.T) {
	env := generic(t, "localhost:1")
	if face := env.Async(); face != env.Async() || face.Sync() != env {
		t.Error("Async and Sync do not lead to the same pointers")
	}
}

// Claim, check and place are one step: whatever the goroutines do, no async call
// reaches the server after a blocking one.
func TestFacesRace(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T) {
			var seen record
			env, _ := scripted(t, seen.play(0))
			const n = 16
			var wg sync.WaitGroup
			var mu sync.Mutex
			succeeded := 0
			for i := range 2 * n {
				wg.Go(func() {
					var err error
					if i%2 == 0 {
						_, err = env.Step(t.Context(), openenv.Object{"face": "blocking"})
					} else {
						_, err = env.Async().Step(openenv.Object{"face": "async"}).Start(t.Context()).Await(t.Context())
					}
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						succeeded++
					} else if _, ok := errors.AsType[*openenv.ExecModeError](err); !ok {
						t.Errorf("call %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			if succeeded == 0 || succeeded != seen.len() {
				t.Errorf("%d calls succeeded, the server saw %d", succeeded, seen.len())
			}
			blocking := false
			for _, frame := range seen.frames {
				if strings.Contains(frame, "blocking") {
					blocking = true
				} else if blocking {
					t.Fatalf("an async call after a blocking one: %v", seen.frames)
				}
			}
		})
	}
}

// Report: create in one goroutine, use and close in others.
func TestManyGoroutinesShareOneClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, script := scripted(t, seen.play(0))
		on := func(f func() error) {
			done := make(chan error)
			go func() { done <- f() }()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		on(func() error { return env.Connect(t.Context()) })
		for range 50 {
			on(func() error { _, err := env.Step(t.Context(), do(1)); return err })
			on(func() error { _, err := env.State(t.Context()); return err })
		}
		on(env.Close)
		if script.Accepted() != 1 {
			t.Errorf("%d sockets, want 1", script.Accepted())
		}
	})
}
