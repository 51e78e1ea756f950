package session_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
	"github.com/openenv-go/openenv/openenvtest"
)

// managed is an origin whose sessions are made by Acquire and outlive sockets, until
// the server refuses to attach one.
type managed struct {
	pause time.Duration

	mu       sync.Mutex
	made     int
	id       string
	calls    []string
	active   int
	overlaps int
}

func (m *managed) enter(call string) func() {
	m.mu.Lock()
	m.calls = append(m.calls, call)
	if m.active++; m.active > 1 {
		m.overlaps++
	}
	m.mu.Unlock()
	time.Sleep(m.pause)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.active--
	}
}

func (m *managed) Acquire(context.Context) (url.Values, error) {
	defer m.enter("acquire")()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.id == "" {
		m.made++
		m.id = string(rune('a' + m.made - 1))
	}
	return url.Values{"session_id": {m.id}}, nil
}

func (m *managed) Lost(cause error) session.Fate {
	if _, refused := errors.AsType[*session.RefusedError](cause); refused {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.id = ""
		return session.FateGone
	}
	return session.FateKept
}

func (m *managed) Release(context.Context) error {
	defer m.enter("release")()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = ""
	return nil
}

// open makes a session over m; sockets are played by play.
func open(t *testing.T, m *managed, play func(p *openenvtest.Peer, id string)) *session.Session {
	t.Helper()
	srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) { play(p, p.Request().URL.Query().Get("session_id")) }))
	s := session.New(session.Config{
		Dial: func(ctx context.Context, query url.Values) (*wsock.Conn, error) {
			address := strings.Replace(srv.URL(), "http", "ws", 1) + "/ws?" + query.Encode()
			return wsock.Dial(ctx, address, srv.HTTPClient(), nil, wsock.Options{CloseTimeout: time.Second})
		},
		Origin:         m,
		MessageTimeout: time.Minute,
		CloseTimeout:   time.Second,
	})
	t.Cleanup(func() {
		if !s.Close() {
			t.Error("Close was not clean")
		}
	})
	return s
}

var frames = map[session.Op]string{
	session.OpReset: `{"type":"reset","data":{}}`,
	session.OpStep:  `{"type":"step","data":{}}`,
	session.OpState: `{"type":"state"}`,
	session.OpTool:  `{"type":"mcp","data":{}}`,
}

func call(ctx context.Context, s *session.Session, op session.Op) error {
	turn, err := s.Begin(ctx, session.FaceBlocking, op, 0)
	if err != nil {
		return err
	}
	defer turn.Finish()
	if err := turn.Wait(ctx); err != nil {
		return err
	}
	x := session.Exchange{Op: op, Request: []byte(frames[op])}
	err = s.RoundTrip(ctx, turn, &x)
	wire.PutBuffer(x.Reply)
	return err
}

func answer(p *openenvtest.Peer) {
	for {
		f, ok := p.Next()
		switch {
		case !ok || f.Type == "close":
			return
		case f.Type == "state":
			p.State(`{}`)
		default:
			p.Observation(`{}`)
		}
	}
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		f(t)
	})
}

func want[E error](t *testing.T, what string, err error) {
	t.Helper()
	if found, ok := errors.AsType[E](err); !ok {
		t.Fatalf("%s: %v (%T), want a %T", what, err, err, found)
	}
}

// A session made elsewhere is not lost with its socket: it is attached again.
func TestManagedSessionOutlivesItsSocket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := &managed{}
		var ids []string
		s := open(t, m, func(p *openenvtest.Peer, id string) {
			ids = append(ids, id)
			switch p.Number() {
			case 1: // idle loss
				p.Expect("reset")
				p.Observation(`{}`)
				p.Abort()
			case 2: // loss under a call, which is not made again
				p.Expect("step")
				p.Abort()
			case 3: // cancelled
				p.Expect("step")
				p.Silence()
			default:
				answer(p)
			}
		})
		if err := call(t.Context(), s, session.OpReset); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want[*session.DoubtError](t, "step whose socket ends", call(t.Context(), s, session.OpStep))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := call(ctx, s, session.OpStep); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled step: %v", err)
		}
		for _, op := range []session.Op{session.OpStep, session.OpState} {
			if err := call(t.Context(), s, op); err != nil {
				t.Errorf("%v: %v", op, err)
			}
		}
		if got := strings.Join(ids, ""); got != "aaaa" || m.made != 1 {
			t.Errorf("sockets attached to %s", got)
		}
	})
}

// It is lost when the server no longer knows it, however many sockets it has had
// since something was done in it.
func TestManagedSessionThatTheServerForgot(t *testing.T) {
	for _, first := range []session.Op{session.OpReset, session.OpStep} {
		t.Run(first.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := &managed{}
				s := open(t, m, func(p *openenvtest.Peer, id string) {
					switch {
					case p.Number() == 1:
						p.Next()
						p.Observation(`{}`)
						p.Abort()
					case p.Number() == 2:
						p.Expect("state")
						p.State(`{}`)
						p.Abort()
					case id == "a":
						p.Error("SESSION_ERROR", "unknown session")
					default:
						answer(p)
					}
				})
				for _, op := range []session.Op{first, session.OpState} {
					if err := call(t.Context(), s, op); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				want[*session.LostError](t, "the call that finds out", call(t.Context(), s, session.OpStep))
				err := call(t.Context(), s, session.OpStep)
				want[*session.LostError](t, "Step", err)
				want[*session.RefusedError](t, "its cause", err)
				if err := s.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				err = call(t.Context(), s, session.OpStep)
				if first == session.OpReset {
					want[*session.LostError](t, "Step after Connect", err)
					err = call(t.Context(), s, session.OpReset)
				}
				if err != nil || m.made != 2 {
					t.Errorf("%v, %d sessions made", err, m.made)
				}
			})
		})
	}
}

// In which nothing was done, a forgotten session is a refusal and no loss.
func TestCleanManagedSessionThatTheServerForgot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := &managed{}
		s := open(t, m, func(p *openenvtest.Peer, id string) {
			if id == "a" {
				p.Error("SESSION_ERROR", "unknown session")
				return
			}
			answer(p)
		})
		want[*session.RefusedError](t, "Step", call(t.Context(), s, session.OpStep))
		if err := call(t.Context(), s, session.OpStep); err != nil || m.made != 2 {
			t.Errorf("%v, %d sessions made", err, m.made)
		}
	})
}

// Disconnect and Close release it: what the user ended is over.
func TestManagedSessionIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := &managed{}
		s := open(t, m, func(p *openenvtest.Peer, _ string) { answer(p) })
		if err := call(t.Context(), s, session.OpStep); err != nil {
			t.Fatal(err)
		}
		if err := s.Disconnect(t.Context()); err != nil {
			t.Fatal(err)
		}
		want[*session.LostError](t, "Step", call(t.Context(), s, session.OpStep))
		if err := call(t.Context(), s, session.OpReset); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if got := strings.Join(m.calls, " "); got != "acquire release acquire release" || m.made != 2 {
			t.Errorf("origin calls %s", got)
		}
	})
}

// Calls on one origin never overlap.
func TestOriginCallsDoNotOverlap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := &managed{pause: 10 * time.Millisecond}
		s := open(t, m, func(p *openenvtest.Peer, _ string) { answer(p) })
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _ = call(t.Context(), s, session.OpState) })
			wg.Go(func() { _ = s.Disconnect(t.Context()) })
			wg.Go(func() { _ = s.Connect(t.Context()) })
			time.Sleep(5 * time.Millisecond)
		}
		wg.Wait()
		if m.overlaps != 0 || len(m.calls) < 10 {
			t.Errorf("%d overlaps in %v", m.overlaps, m.calls)
		}
	})
}
