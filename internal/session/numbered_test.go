package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
	"github.com/openenv-go/openenv/openenvtest"
)

// numbered makes a session whose server numbers requests.
func numbered(t *testing.T, change func(*session.Config, *wsock.Options), play func(*openenvtest.Peer)) *survivor {
	t.Helper()
	s := resuming(t, func(c *session.Config, o *wsock.Options) {
		o.Subprotocols = []string{wire.SessionV1}
		if change != nil {
			change(c, o)
		}
	}, play)
	s.script.Subprotocols(wire.SessionV1)
	return s
}

// respond sends the usual reply to f, with its number.
func respond(p *openenvtest.Peer, f openenvtest.Frame) {
	switch f.Type {
	case "state":
		send(p, f.ID, `{"type":"state","data":{"episode_id":"e","step_count":0}}`)
	case "reset", "step":
		send(p, f.ID, `{"type":"observation","data":{"observation":{},"reward":null,"done":false}}`)
	}
}

func send(p *openenvtest.Peer, id uint64, frame string) {
	p.Sendf(`{"id":%d,%s`, id, frame[1:])
}

func serve(p *openenvtest.Peer) {
	for {
		f, ok := p.Next()
		if !ok || f.Type == "close" {
			return
		}
		respond(p, f)
	}
}

// expect wants a frame of that type and number.
func expect(t *testing.T, p *openenvtest.Peer, typ string, id uint64) openenvtest.Frame {
	f := p.Expect(typ)
	if f.ID != id {
		t.Errorf("client sent %s, want number %d", f.Text, id)
	}
	return f
}

// A request whose socket was lost is sent again with its own number, in its old place,
// and later ones have greater numbers.
func TestLostRequestsKeepTheirNumbers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := numbered(t, func(c *session.Config, _ *wsock.Options) { c.Pipelining = 3 }, func(p *openenvtest.Peer) {
			switch p.Number() {
			case 1:
				respond(p, expect(t, p, "reset", 1))
				respond(p, expect(t, p, "step", 2))
				expect(t, p, "step", 3)
				expect(t, p, "step", 4)
				p.Abort()
			case 2: // and again
				expect(t, p, "step", 3)
				p.Abort()
			default:
				respond(p, expect(t, p, "step", 3))
				respond(p, expect(t, p, "step", 4))
				respond(p, expect(t, p, "state", 5))
				if f, ok := p.Next(); ok && (f.Type != "close" || f.ID != 6) {
					t.Errorf("client sent %s, want a close of number 6", f.Text)
				}
			}
		})
		must(t, call(t.Context(), s.Session, session.OpReset))
		must(t, call(t.Context(), s.Session, session.OpStep))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := call(t.Context(), s.Session, session.OpStep); err != nil {
					t.Errorf("Step: %v", err)
				}
			})
		}
		wg.Wait()
		must(t, call(t.Context(), s.Session, session.OpState))
		start := time.Now()
		s.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %v", took)
		}
		if s.script.Accepted() != 3 || s.made.Load() != 1 {
			t.Errorf("%d sockets, %d sessions made", s.script.Accepted(), s.made.Load())
		}
	})
}

// A refusal that comes in place of the reply to a repeated request does not answer it.
func TestRefusedSocketWithARequestInTheAir(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := numbered(t, nil, func(p *openenvtest.Peer) {
			switch p.Number() {
			case 1:
				p.Expect("step")
				p.Abort()
			case 2, 3:
				p.Error("SESSION_ERROR", attached)
			default:
				respond(p, expect(t, p, "step", 1))
				serve(p)
			}
		})
		must(t, call(t.Context(), s.Session, session.OpStep))
	})
}

// A server that has forgotten the session has forgotten the request, too.
func TestUnknownSessionWithARequestInTheAir(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := numbered(t, nil, func(p *openenvtest.Peer) {
			if p.Number() == 1 {
				p.Expect("step")
				p.Abort()
				return
			}
			p.Error("SESSION_ERROR", unknown)
		})
		err := call(t.Context(), s.Session, session.OpStep)
		lost, ok := errors.AsType[*session.LostError](err)
		if !ok || !lost.Sent || !errors.Is(err, session.ErrUnknownSession) {
			t.Errorf("Step: %v, want the loss of an unknown session", err)
		}
		if got := s.script.Accepted(); got != 2 {
			t.Errorf("%d sockets, want 2", got)
		}
	})
}

// The server is told that a caller has left, or waited too long. The session keeps its
// socket.
func TestCancelReachesTheServer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer string // to the request that was called off
	}{
		{"cancelled there", `{"type":"error","data":{"message":"called off","code":"CANCELLED"}}`},
		{"applied in spite of it", `{"type":"observation","data":{"observation":{},"reward":null,"done":false}}`},
	} {
		play := func(t *testing.T) func(*openenvtest.Peer) {
			return func(p *openenvtest.Peer) {
				expect(t, p, "step", 1)
				if f := expect(t, p, "cancel", 1); f.Text != `{"id":1,"type":"cancel"}` {
					t.Errorf("client sent %s", f.Text)
				}
				send(p, 1, tt.answer)
				serve(p)
			}
		}
		goesOn := func(t *testing.T, s *survivor) {
			synctest.Wait() // the cancel goes its own way
			must(t, call(t.Context(), s.Session, session.OpStep))
			if got := s.script.Accepted(); got != 1 {
				t.Errorf("%d sockets, want the same one", got)
			}
		}
		t.Run("caller leaves/"+tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := numbered(t, nil, play(t))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				if err := call(ctx, s.Session, session.OpStep); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
					t.Errorf("Step: %v after %v", err, time.Since(start))
				}
				goesOn(t, s)
			})
		})
		t.Run("message timeout/"+tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := numbered(t, nil, play(t))
				start := time.Now()
				if err := call(t.Context(), s.Session, session.OpStep); !errors.Is(err, session.ErrMessageTimeout) || time.Since(start) != time.Minute {
					t.Errorf("Step: %v after %v", err, time.Since(start))
				}
				goesOn(t, s)
			})
		})
	}
}

// A server that does not answer a cancelled request either is given up after a second
// message timeout.
func TestServerThatDoesNotHeedCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := numbered(t, nil, func(p *openenvtest.Peer) {
			if p.Number() == 1 {
				p.Silence()
				return
			}
			serve(p)
		})
		for range 2 {
			if err := call(t.Context(), s.Session, session.OpStep); !errors.Is(err, session.ErrMessageTimeout) && err != nil {
				t.Fatalf("Step: %v", err)
			}
		}
		if got := s.script.Accepted(); got != 2 {
			t.Errorf("%d sockets, want another one", got)
		}
	})
}

// A caller that leaves while there is no socket takes its request with it, if it was not
// on the wire. One that was is called off on the next socket.
func TestCallerLeavesWithoutASocket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := numbered(t, nil, func(p *openenvtest.Peer) {
			switch {
			case p.Number() == 1:
				p.Expect("step")
				p.Abort()
			case p.Number() < 6:
				p.Error("SESSION_ERROR", attached)
			default:
				serve(p)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := call(ctx, s.Session, session.OpStep); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Step: %v", err)
		}
		must(t, call(t.Context(), s.Session, session.OpStep))
	})
}

// A reply with another number than the one that is due shows that the server counts
// otherwise: the connection ends, and nothing is made of the reply.
func TestReplyWithAWrongNumber(t *testing.T) {
	for name, reply := range map[string]string{
		"too small":    `{"id":1,"type":"observation","data":{}}`,
		"too great":    `{"id":3,"type":"observation","data":{}}`,
		"none":         `{"type":"observation","data":{}}`,
		"blanks":       `{ "id":2,"type":"observation","data":{}}`,
		"unnumbered":   `{"type":"error","data":{"message":"?","code":"INVALID_JSON"}}`,
		"another type": `{"id":2,"type":"state","data":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := numbered(t, nil, func(p *openenvtest.Peer) {
					if p.Number() > 1 {
						serve(p)
						return
					}
					respond(p, p.Expect("reset"))
					p.Expect("step")
					p.Send(reply)
					p.Silence()
				})
				must(t, call(t.Context(), s.Session, session.OpReset))
				want[*session.FrameError](t, "Step", call(t.Context(), s.Session, session.OpStep))
				must(t, call(t.Context(), s.Session, session.OpStep))
				if got := s.script.Accepted(); got != 2 {
					t.Errorf("%d sockets, want another one", got)
				}
			})
		})
	}
}

// An unasked reply ends the connection, too.
func TestReplyThatNobodyAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := numbered(t, nil, func(p *openenvtest.Peer) {
			if p.Number() == 1 {
				respond(p, p.Expect("reset"))
				send(p, 1, `{"type":"observation","data":{}}`)
			}
			serve(p)
		})
		must(t, call(t.Context(), s.Session, session.OpReset))
		synctest.Wait()
		must(t, call(t.Context(), s.Session, session.OpStep))
		if got := s.script.Accepted(); got != 2 {
			t.Errorf("%d sockets, want another one", got)
		}
	})
}

// The caller's deadline travels with the request, and what is left of it with its
// repetition.
func TestDeadlineTravelsWithTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var times []int64
		s := numbered(t, nil, func(p *openenvtest.Peer) {
			for {
				f, ok := p.Next()
				if !ok || f.Type == "close" {
					return
				}
				times = append(times, f.MS)
				if p.Number() == 1 && len(times) == 3 {
					time.Sleep(300 * time.Millisecond)
					p.Abort()
					return
				}
				respond(p, f)
			}
		})
		must(t, call(t.Context(), s.Session, session.OpReset))
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			must(t, call(ctx, s.Session, session.OpStep))
			cancel()
		}
		if got := fmt.Sprint(times); got != "[0 1500 1500 1200]" {
			t.Errorf("times of the requests: %v", got)
		}
	})
}

// A reply that is larger than the client reads would be so again: the request is not
// repeated, and the caller learns that it was applied.
func TestReplyAboveTheReadLimit(t *testing.T) {
	text := strings.Repeat("x", 2048)
	observation := `{"type":"observation","data":{"observation":{"big":"` + text + `"},"reward":null,"done":false}}`
	big := map[string]string{"reset": observation, "step": observation, "state": `{"type":"state","data":{"big":"` + text + `"}}`}
	for _, op := range []session.Op{session.OpReset, session.OpStep, session.OpState} {
		t.Run(op.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				asked := 0
				s := numbered(t, func(_ *session.Config, o *wsock.Options) { o.ReadLimit = 1024 }, func(p *openenvtest.Peer) {
					if p.Number() == 1 {
						f, _ := p.Next()
						asked++
						send(p, f.ID, big[f.Type])
					}
					for {
						f, ok := p.Next()
						if !ok || f.Type == "close" {
							return
						}
						if f.ID == 1 {
							asked++
						}
						respond(p, f)
					}
				})
				err := call(t.Context(), s.Session, op)
				if !errors.Is(err, wsock.ErrTooBig) {
					t.Errorf("%v, want the size as the cause", err)
				}
				if _, applied := errors.AsType[*session.ReplyLostError](err); applied != (op != session.OpState) {
					t.Errorf("%v (%T)", err, err)
				}
				must(t, call(t.Context(), s.Session, session.OpStep))
				if got := s.script.Accepted(); asked != 1 || got != 2 {
					t.Errorf("asked %d times on %d sockets", asked, got)
				}
			})
		})
	}
}

// A request that is larger than the server reads would be so again, too: it is not
// repeated, and was not applied. The others in the air are.
func TestRequestAboveTheServersLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := 0
		s := numbered(t, func(c *session.Config, _ *wsock.Options) { c.Pipelining = 2 }, func(p *openenvtest.Peer) {
			if p.Number() > 1 {
				asked++
				respond(p, expect(t, p, "step", 2))
				serve(p)
				return
			}
			respond(p, p.Expect("reset"))
			p.Expect("step")
			p.Expect("step")
			p.Close(wsock.CloseTooBig, "too big")
		})
		must(t, call(t.Context(), s.Session, session.OpReset))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := call(t.Context(), s.Session, session.OpStep); err != nil {
				t.Errorf("a small step: %v", err)
			}
		})
		synctest.Wait()
		err := stepOf(t, s, `{"type":"step","data":{"big":"`+strings.Repeat("x", 1000)+`"}}`)
		if closed, ok := errors.AsType[*wsock.CloseError](err); !ok || closed.Code != wsock.CloseTooBig {
			t.Errorf("a large step: %v, want the server's reason", err)
		}
		wg.Wait()
		if asked != 1 {
			t.Errorf("%d sockets after the first", asked)
		}
	})
}

// stepOf makes one step of that frame.
func stepOf(t *testing.T, s *survivor, frame string) error {
	t.Helper()
	turn, err := s.Begin(t.Context(), session.FaceBlocking, session.OpStep, len(frame))
	if err != nil {
		return err
	}
	defer turn.Finish()
	if err := turn.Wait(t.Context()); err != nil {
		return err
	}
	x := session.Exchange{Op: session.OpStep, Request: []byte(frame)}
	err = s.RoundTrip(t.Context(), turn, &x)
	wire.PutBuffer(x.Reply)
	return err
}
