package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/rpc"
	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wsock"
	"github.com/openenv-go/openenv/openenvtest"
)

// survivor is a session that comes back after the loss of its socket, and its server:
// sockets are played by a script, and what goes over HTTP is counted.
type survivor struct {
	*session.Session

	script  *openenvtest.Scripted
	made    atomic.Int32
	ended   atomic.Int32
	refused func(method string) error // of requests over HTTP; nil: none
}

const patience = time.Minute // MaxWait of the tests that do not care

// resuming makes a session whose sockets are played by play; change may alter what it is
// made of.
func resuming(t *testing.T, change func(*session.Config, *wsock.Options), play func(*openenvtest.Peer)) *survivor {
	t.Helper()
	v := &survivor{script: openenvtest.Script(t, play)}
	srv := openenvtest.Serve(t, v.script)
	socket := wsock.Options{CloseTimeout: time.Second}
	cfg := session.Config{
		Dial: func(ctx context.Context, query url.Values) (*wsock.Conn, error) {
			return wsock.Dial(ctx, strings.Replace(srv.URL(), "http", "ws", 1)+"/ws?"+query.Encode(), srv.HTTPClient(), nil, socket)
		},
		Origin:         session.NewManaged(v.http),
		Resume:         &session.Resume{Backoff: 100 * time.Millisecond, MaxWait: patience},
		MessageTimeout: time.Minute,
		CloseTimeout:   time.Second,
	}
	if change != nil {
		change(&cfg, &socket)
	}
	v.Session = session.New(cfg)
	t.Cleanup(func() {
		if !v.Close() {
			t.Error("Close was not clean")
		}
	})
	return v
}

func (v *survivor) http(_ context.Context, method string, _ any) (json.RawMessage, error) {
	if v.refused != nil {
		if err := v.refused(method); err != nil {
			return nil, err
		}
	}
	switch method {
	case "openenv/session/create":
		return json.RawMessage(fmt.Sprintf(`{"session_id":"s%d"}`, v.made.Add(1))), nil
	case "openenv/session/close":
		v.ended.Add(1)
		return json.RawMessage(`{"closed":true}`), nil
	}
	return nil, &rpc.Error{Code: -32601, Message: "Method not found"}
}

const (
	attached = "Session s1 already has an attached WebSocket"
	unknown  = "Unknown session_id: s1"
)

// lose plays a first socket: a reset is answered, then the connection ends.
func lose(p *openenvtest.Peer) {
	p.Expect("state")
	p.State(`{"episode_id":"e","step_count":0}`)
	p.Expect("reset")
	p.Observation(`{}`)
	p.Expect("state")
	p.State(`{"episode_id":"e","step_count":0}`)
	p.Abort()
}

// stay plays a socket that holds.
func stay(p *openenvtest.Peer) {
	for {
		f, ok := p.Next()
		switch {
		case !ok || f.Type == "close":
			return
		case f.Type == "state":
			p.State(`{"episode_id":"e","step_count":0}`)
		default:
			p.Observation(`{}`)
		}
	}
}

// A server that takes the old socket to be alive is asked again; one that is full of
// other failures, too.
func TestAttachIsTriedAgain(t *testing.T) {
	for name, refuse := range map[string]func(p *openenvtest.Peer){
		"already attached":   func(p *openenvtest.Peer) { p.Error("SESSION_ERROR", attached) },
		"ends at once":       func(p *openenvtest.Peer) { p.Abort() },
		"ends when asked":    func(p *openenvtest.Peer) { p.Next(); p.Abort() },
		"closes with a code": func(p *openenvtest.Peer) { p.Close(1012, "restart") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := resuming(t, nil, func(p *openenvtest.Peer) {
					switch p.Number() {
					case 1:
						lose(p)
					case 2, 3, 4:
						refuse(p)
					default:
						stay(p)
					}
				})
				must(t, call(t.Context(), s.Session, session.OpReset))
				synctest.Wait()
				must(t, call(t.Context(), s.Session, session.OpStep))
				if got := s.script.Accepted(); got != 5 || s.made.Load() != 1 {
					t.Errorf("%d sockets, %d sessions made", got, s.made.Load())
				}
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A server that does not know the session is asked once: the episode is gone, and only
// Reset begins another.
func TestUnknownSessionIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := resuming(t, nil, func(p *openenvtest.Peer) {
			switch {
			case p.Number() == 1:
				lose(p)
			case strings.HasSuffix(p.Request().URL.RawQuery, "s1"):
				p.Error("SESSION_ERROR", unknown)
			default:
				stay(p)
			}
		})
		must(t, call(t.Context(), s.Session, session.OpReset))
		for range 2 {
			err := call(t.Context(), s.Session, session.OpStep)
			want[*session.LostError](t, "Step", err)
			if !errors.Is(err, session.ErrUnknownSession) {
				t.Errorf("Step: %v does not say that the session is unknown", err)
			}
		}
		if got := s.script.Accepted(); got != 2 {
			t.Errorf("%d sockets, want no other attempt", got)
		}
		must(t, call(t.Context(), s.Session, session.OpReset))
		if s.made.Load() != 2 {
			t.Errorf("%d sessions made, want another one", s.made.Load())
		}
	})
}

// How often, how long and how fast it is tried is the caller's choice.
func TestAttemptsMaxWaitAndBackoff(t *testing.T) {
	for _, tt := range []struct {
		name        string
		resume      session.Resume
		first, last int           // attempts, at least and at most
		from, to    time.Duration // until it is given up
		says        string
	}{
		{
			name: "attempts", resume: session.Resume{Attempts: 4, Backoff: time.Second, MaxWait: time.Hour},
			first: 4, last: 4, from: 3500 * time.Millisecond, to: 7 * time.Second, says: "gave up after 4 attempts",
		},
		{
			name: "max wait", resume: session.Resume{Backoff: 100 * time.Millisecond, MaxWait: time.Second},
			first: 4, last: 6, from: time.Second, to: time.Second, says: "gave up after 1s",
		},
		{ // 0.1 s, doubled up to 5 s, half of each is chance
			name: "longest pause", resume: session.Resume{Backoff: 100 * time.Millisecond, MaxWait: 5 * time.Minute},
			first: 5*60/5 + 1, last: 5*60*2/5 + 10, from: 5 * time.Minute, to: 5 * time.Minute, says: "gave up after 5m0s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := resuming(t, func(c *session.Config, _ *wsock.Options) { c.Resume = &tt.resume }, func(p *openenvtest.Peer) {
					if p.Number() == 1 {
						lose(p)
						return
					}
					p.Error("SESSION_ERROR", attached)
				})
				must(t, call(t.Context(), s.Session, session.OpReset))
				start := time.Now()
				err := call(t.Context(), s.Session, session.OpStep)
				want[*session.LostError](t, "Step", err)
				if !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
					t.Errorf("Step: %v, want %q", err, tt.says)
				}
				if took := time.Since(start); took < tt.from || took > tt.to {
					t.Errorf("it was given up after %v, want %v to %v", took, tt.from, tt.to)
				}
				if got := s.script.Accepted() - 1; got < tt.first || got > tt.last {
					t.Errorf("%d attempts, want %d to %d", got, tt.first, tt.last)
				}
				if s.ended.Load() != 1 {
					t.Errorf("the server was told %d times that nobody comes back", s.ended.Load())
				}
			})
		})
	}
}

// A network that swallows everything, the attempts too, is given up in time, and what is
// left of them is not taken for the session.
func TestAttachThatNobodyAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		unlimited := func(c *session.Config, _ *wsock.Options) { c.MessageTimeout = 0 }
		s := resuming(t, unlimited, func(p *openenvtest.Peer) {
			switch p.Number() {
			case 1:
				lose(p)
			case 2:
				p.Silence()
			default:
				stay(p)
			}
		})
		must(t, call(t.Context(), s.Session, session.OpReset))
		synctest.Wait()
		start := time.Now()
		for range 2 {
			want[*session.LostError](t, "Step", call(t.Context(), s.Session, session.OpStep))
		}
		if took := time.Since(start); took < patience || took > patience+2*time.Second {
			t.Errorf("it was given up after %v, want %v", took, patience)
		}
		must(t, call(t.Context(), s.Session, session.OpReset))
		if s.made.Load() != 2 {
			t.Errorf("%d sessions made, want another one for another episode", s.made.Load())
		}
	})
}

// Each caller waits within its own ctx; who leaves does not take the way back from the
// others.
func TestCallersWaitWithinTheirOwnCtx(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := resuming(t, nil, func(p *openenvtest.Peer) {
			switch {
			case p.Number() == 1:
				lose(p)
			case p.Number() < 8:
				p.Error("SESSION_ERROR", attached)
			default:
				stay(p)
			}
		})
		must(t, call(t.Context(), s.Session, session.OpReset))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := call(ctx, s.Session, session.OpStep); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("Step with a second's patience: %v after %v", err, time.Since(start))
			}
		})
		wg.Go(func() {
			if err := call(t.Context(), s.Session, session.OpState); err != nil {
				t.Errorf("State: %v", err)
			}
		})
		wg.Wait()
		must(t, call(t.Context(), s.Session, session.OpStep))
		if s.made.Load() != 1 {
			t.Errorf("%d sessions made", s.made.Load())
		}
	})
}

// Disconnect and Close end the wait for another socket, for those who wait too.
func TestEndDuringTheWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*survivor) error
		err  error
	}{
		{"Disconnect", func(s *survivor) error { return s.Disconnect(context.Background()) }, session.ErrDisconnected},
		{"Close", func(s *survivor) error { s.Close(); return nil }, session.ErrClosed},
	} {
		for _, inFlight := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/in flight %v", tt.name, inFlight), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := resuming(t, nil, func(p *openenvtest.Peer) {
						if p.Number() > 1 {
							p.Error("SESSION_ERROR", attached)
							return
						}
						p.Expect("state")
						p.State(`{"episode_id":"e","step_count":0}`)
						p.Expect("step")
						if inFlight {
							p.Abort()
							return
						}
						p.Observation(`{}`)
						p.Abort()
					})
					if !inFlight {
						must(t, call(t.Context(), s.Session, session.OpStep))
						synctest.Wait()
					}
					waiting := make(chan error, 1)
					go func() { waiting <- call(t.Context(), s.Session, session.OpStep) }()
					time.Sleep(3 * time.Second)
					start := time.Now()
					must(t, tt.end(s))
					err := <-waiting
					if !errors.Is(err, tt.err) || time.Since(start) > 3*time.Second {
						t.Errorf("Step: %v after %v, want %v", err, time.Since(start), tt.err)
					}
					if s.ended.Load() != 1 {
						t.Errorf("the session was ended %d times on the server", s.ended.Load())
					}
					sockets := s.script.Accepted()
					time.Sleep(time.Minute)
					if got := s.script.Accepted(); got != sockets {
						t.Errorf("%d more attempts after the end", got-sockets)
					}
				})
			})
		}
	}
}

// A client that is idle comes back, too: the next call finds a session.
func TestIdleSessionComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := resuming(t, nil, func(p *openenvtest.Peer) {
			if p.Number() < 5 {
				p.Expect("state")
				p.State(`{"episode_id":"e","step_count":0}`)
				p.Abort()
				return
			}
			stay(p)
		})
		must(t, s.Connect(t.Context()))
		time.Sleep(time.Minute)
		if got := s.script.Accepted(); got != 5 || !s.Status().Connected {
			t.Errorf("%d sockets, connected %v", got, s.Status().Connected)
		}
		must(t, call(t.Context(), s.Session, session.OpStep))
	})
}

// A server that lets sockets in and drops them is not knocked at without a pause, and
// given up in the end: it is one loss.
func TestSocketsThatDieAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := resuming(t, nil, func(p *openenvtest.Peer) {
			if p.Number() == 1 {
				lose(p)
				return
			}
			p.Expect("state")
			p.State(`{"episode_id":"e","step_count":0}`)
			p.Abort()
		})
		must(t, call(t.Context(), s.Session, session.OpReset))
		time.Sleep(2 * patience)
		if got := s.script.Accepted() - 1; got < 12 || got > 30 {
			t.Errorf("%d attempts", got)
		}
		want[*session.LostError](t, "Step", call(t.Context(), s.Session, session.OpStep))
	})
}

// A network that cuts what is idle is no reason to give up: sockets that held for a while
// are losses of their own.
func TestSocketsThatDieNowAndThen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := resuming(t, nil, func(p *openenvtest.Peer) {
			p.Expect("state")
			p.State(`{"episode_id":"e","step_count":0}`)
			if p.Number() == 100 {
				stay(p)
				return
			}
			time.Sleep(10 * time.Second)
			p.Abort()
		})
		must(t, s.Connect(t.Context()))
		time.Sleep(20 * time.Minute)
		must(t, call(t.Context(), s.Session, session.OpStep))
	})
}
