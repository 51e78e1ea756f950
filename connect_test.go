package openenv_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// Report: one client is at most one server session, and connecting is idempotent.
func TestConnectIsIdempotent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen record
		env, script := scripted(t, seen.play(0))
		for range 3 {
			if err := env.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mustReset(t, env)
		if err := env.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen.want(t, "state", "reset") // one probe
		if script.Accepted() != 1 {
			t.Errorf("%d sockets", script.Accepted())
		}
	})
}

// Concurrent first calls share one dial.
func TestFirstCallsShareOneDial(t *testing.T) {
	bubble(t, func(t *testing.T) {
		script := openenvtest.Script(t, answer)
		srv := openenvtest.Serve(t, slowUpgrade{script, time.Second})
		env := generic(t, srv.URL(), srv.Option())
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				var err error
				switch i % 3 {
				case 0:
					_, err = env.Step(t.Context(), do(i))
				case 1:
					_, err = env.State(t.Context())
				default:
					err = env.Connect(t.Context())
				}
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if script.Accepted() != 1 {
			t.Errorf("%d sockets", script.Accepted())
		}
	})
}

// Report: the connection drops when the function that dialled returns. The ctx of
// Connect bounds Connect, nothing else.
func TestConnectContextEndsAfterwards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, script := scripted(t, answer)
		ctx, cancel := context.WithCancel(t.Context())
		if err := env.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			if _, err := env.Step(t.Context(), do(1)); err != nil {
				t.Fatal(err)
			}
		}
		if script.Accepted() != 1 {
			t.Errorf("%d sockets", script.Accepted())
		}
	})
}

// Connect returns when the server has admitted the session: any reply to its
// question is a yes, but those that end the session.
func TestAdmission(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply func(p *openenvtest.Peer)
		check func(t *testing.T, err error)
	}{
		{"state", func(p *openenvtest.Peer) { p.State(`{}`) }, nil},
		{"state that is not decoded", func(p *openenvtest.Peer) { p.State(`{"step_count":"many"}`) }, nil},
		{"execution error", func(p *openenvtest.Peer) { p.Error("EXECUTION_ERROR", "no state here") }, nil},
		{"validation error", func(p *openenvtest.Peer) { p.Error("VALIDATION_ERROR", "?") }, nil},
		{"slow factory", func(p *openenvtest.Peer) { time.Sleep(15 * time.Second); p.State(`{}`) }, nil},
		{"capacity", func(p *openenvtest.Peer) { p.Error("CAPACITY_REACHED", "full") }, isServerError("CAPACITY_REACHED")},
		{"factory", func(p *openenvtest.Peer) { p.Error("FACTORY_ERROR", "no display") }, isServerError("FACTORY_ERROR")},
		{"session", func(p *openenvtest.Peer) { p.Error("SESSION_ERROR", "?") }, isServerError("SESSION_ERROR")},
		{"close", func(p *openenvtest.Peer) { p.Close(1013, "later") }, isConnectError},
		{"abort", func(p *openenvtest.Peer) { p.Abort() }, isConnectError},
		{"silence", func(p *openenvtest.Peer) { p.Silence() }, func(t *testing.T, err error) {
			wantIs(t, "Connect", err, openenv.ErrMessageTimeout)
		}},
		{"not a reply", func(p *openenvtest.Peer) { p.Send(`[1]`) }, func(t *testing.T, err error) {
			wantAs[*openenv.DecodeError](t, "Connect", err)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, _ := scripted(t, func(p *openenvtest.Peer) {
					if p.Number() == 1 {
						p.Expect("state")
						tt.reply(p)
					}
					answer(p)
				})
				err := env.Connect(t.Context())
				if tt.check != nil {
					tt.check(t, err)
				} else if err != nil {
					t.Fatal(err)
				}
				// Nothing was done in the session, so nothing is lost.
				if _, err := env.Step(t.Context(), do(1)); err != nil {
					t.Errorf("Step afterwards: %v", err)
				}
			})
		})
	}
}

func isServerError(code openenv.ErrorCode) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		if e := as[*openenv.ServerError](t, "call", err); e.Code != code {
			t.Errorf("code %s, want %s", e.Code, code)
		}
		if errors.Is(err, openenv.ErrCapacity) != (code == openenv.CodeCapacityReached) {
			t.Errorf("%v matches ErrCapacity: %v", err, errors.Is(err, openenv.ErrCapacity))
		}
	}
}

func isConnectError(t *testing.T, err error) {
	t.Helper()
	wantAs[*openenv.ConnectError](t, "call", err)
}

// One who asked for admission and left does not take the answer from the others.
func TestAdmissionIsNotTheCallersAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, (&record{}).play(10*time.Second))
		for range 3 {
			go func() { _ = env.Connect(within(t, time.Second)) }()
		}
		synctest.Wait()
		if err := env.Connect(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Refusals come unasked, before or during or in place of the first reply, and are
// followed by a close. Whatever comes first, the caller learns the reason, and no
// episode was lost.
func TestRefusals(t *testing.T) {
	calls := []use{blockingStep, asyncStep,
		{"Reset", func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.Reset(ctx); return err }},
		{"State", func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.State(ctx); return err }},
		{"Connect", func(ctx context.Context, env *openenv.GenericClient) error { return env.Connect(ctx) }},
		{"NewSession", func(ctx context.Context, env *openenv.GenericClient) error { _, err := env.NewSession(ctx); return err }},
	}
	for _, code := range []openenv.ErrorCode{openenv.CodeCapacityReached, openenv.CodeFactory, openenv.CodeSession} {
		for _, when := range []string{"before the first write", "in reply"} {
			for _, call := range calls {
				t.Run(string(code)+"/"+when+"/"+call.name, func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						refuse := true
						env, _ := scripted(t, func(p *openenvtest.Peer) {
							if !refuse {
								answer(p)
								return
							}
							if when == "in reply" {
								p.Next()
							}
							p.Error(string(code), "refused")
						})
						isServerError(code)(t, call.do(t.Context(), env))
						refuse = false
						if err := blockingStep.do(t.Context(), env); err != nil {
							t.Errorf("Step afterwards: %v", err)
						}
					})
				})
			}
		}
	}
}

// The same over real sockets, where the server's frame and close, and the client's
// write race.
func TestRefusalRacesWithTheFirstWrite(t *testing.T) {
	leak.Check(t)
	script := openenvtest.Script(t, func(p *openenvtest.Peer) { p.Error("CAPACITY_REACHED", "full") })
	srv := openenvtest.ServeLoopback(t, script)
	for i := range 300 {
		env, err := openenv.New(openenv.Generic, srv.URL())
		if err != nil {
			t.Fatal(err)
		}
		for try := 1; try <= 2; try++ {
			switch i % 3 {
			case 0:
				_, err = env.Reset(t.Context())
			case 1:
				_, err = env.Step(t.Context(), do(i))
			default:
				err = env.Connect(t.Context())
			}
			if !errors.Is(err, openenv.ErrCapacity) {
				t.Fatalf("client %d, call %d: %v", i, try, err)
			}
			wantAs[*openenv.ServerError](t, "call", err)
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := script.Accepted(); n != 600 {
		t.Errorf("%d dials for 600 calls: a refusal was retried", n)
	}
}

// Report: reconnect storm. Without the option nothing is retried; with it there are
// pauses that grow, a cap and a limit.
func TestConnectRetry(t *testing.T) {
	retry := openenv.WithConnectRetry(openenv.Retry{Attempts: 20, Base: 100 * time.Millisecond, Max: time.Second})
	for _, tt := range []struct {
		name    string
		opts    []openenv.Option
		refuse  func(p *openenvtest.Peer)
		dials   int // 0: several
		succeed bool
	}{
		{"off", nil, func(p *openenvtest.Peer) { p.Error("CAPACITY_REACHED", "full") }, 1, false},
		{"refused", []openenv.Option{retry}, func(p *openenvtest.Peer) { p.Error("CAPACITY_REACHED", "full") }, 0, true},
		{"refused in reply", []openenv.Option{retry}, func(p *openenvtest.Peer) { p.Next(); p.Error("CAPACITY_REACHED", "full") }, 0, true},
		{"limit", []openenv.Option{openenv.WithConnectRetry(openenv.Retry{Attempts: 3, Base: 100 * time.Millisecond})},
			func(p *openenvtest.Peer) { p.Error("CAPACITY_REACHED", "full") }, 3, false},
	} {
		for _, call := range []use{blockingStep, {"Connect", func(ctx context.Context, env *openenv.GenericClient) error { return env.Connect(ctx) }}} {
			t.Run(tt.name+"/"+call.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					begin := time.Now()
					var at []time.Duration
					env, _ := scripted(t, func(p *openenvtest.Peer) {
						at = append(at, time.Since(begin))
						if time.Since(begin) < 3*time.Second {
							tt.refuse(p)
							return
						}
						answer(p)
					}, tt.opts...)
					err := call.do(t.Context(), env)
					if tt.succeed != (err == nil) {
						t.Errorf("%v", err)
					}
					if !tt.succeed {
						wantIs(t, call.name, err, openenv.ErrCapacity)
						if len(at) != tt.dials {
							t.Errorf("dialled at %v, want %d times", at, tt.dials)
						}
						return
					}
					if refused := len(at) - 1; refused > 6 || refused < 4 {
						t.Errorf("dialled at %v", at)
					}
					for i := 2; i < len(at); i++ {
						if at[i]-at[i-1] < at[i-1]-at[i-2] {
							t.Errorf("gaps shrink: %v", at)
						}
					}
				})
			})
		}
	}
}

// A server that cannot be reached is retried like one that refuses, and Close ends it.
func TestCloseEndsARetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, func(p *openenvtest.Peer) { p.Error("CAPACITY_REACHED", "full") },
			openenv.WithConnectRetry(openenv.Retry{Attempts: 1000, Base: time.Hour}))
		waiting := make(chan error, 1)
		go func() { waiting <- env.Connect(t.Context()) }()
		synctest.Wait()
		if took := after(func() { _ = env.Close() }); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		wantIs(t, "Connect", <-waiting, openenv.ErrClosed)
	})
}

// statuses is a server whose upgrade is refused with a status.
type statuses struct {
	requests atomic.Int32
	status   int
	header   http.Header
	body     string
}

func (s *statuses) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.requests.Add(1)
	maps.Copy(w.Header(), s.header)
	w.WriteHeader(s.status)
	_, _ = w.Write([]byte(s.body))
}

// A refused upgrade shows its status; redirects are not followed; an environment
// that is gone is asked once.
func TestUpgradeStatus(t *testing.T) {
	for _, tt := range []struct {
		status int
		header http.Header
		dials  int32
		gone   bool
	}{
		{401, nil, 3, false},
		{403, nil, 3, false},
		{404, nil, 3, false},
		{302, http.Header{"Location": {"/login"}}, 3, false},
		{307, http.Header{"Location": {"/login"}}, 3, false},
		{503, nil, 3, false},
		{200, nil, 3, false},
		{410, nil, 1, true},
	} {
		t.Run(http.StatusText(tt.status), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				handler := &statuses{status: tt.status, header: tt.header}
				srv := openenvtest.Serve(t, handler)
				env := generic(t, srv.URL(), srv.Option(), openenv.WithConnectRetry(openenv.Retry{Attempts: 3, Base: time.Second}))
				_, err := env.Step(t.Context(), do(1))
				refused := as[*openenv.ConnectError](t, "Step", err)
				if refused.Status != tt.status || refused.Op != "step" || refused.URL != "ws://memnet.test:80/ws" {
					t.Errorf("%+v", refused)
				}
				if errors.Is(err, openenv.ErrGone) != tt.gone || handler.requests.Load() != tt.dials {
					t.Errorf("%d requests, want %d: %v", handler.requests.Load(), tt.dials, err)
				}
			})
		})
	}
}

// The connect timeout bounds the upgrade; 0 is none.
func TestConnectTimeout(t *testing.T) {
	for _, tt := range []struct {
		limit time.Duration
		ok    bool
	}{{time.Second, false}, {0, true}, {20 * time.Second, true}} {
		t.Run(tt.limit.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := openenvtest.Serve(t, slowUpgrade{openenvtest.Script(t, answer), 15 * time.Second})
				env := generic(t, srv.URL(), srv.Option(), openenv.WithConnectTimeout(tt.limit))
				var err error
				took := after(func() { _, err = env.State(t.Context()) })
				if tt.ok {
					if err != nil || took != 15*time.Second {
						t.Errorf("%v after %v", err, took)
					}
					return
				}
				refused := as[*openenv.ConnectError](t, "State", err)
				if took != tt.limit || refused.Status != 0 {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}
