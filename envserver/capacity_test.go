package envserver_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// Report 33: one instance per session, more than one only by declaration.
func TestConcurrencyIsDeclared(t *testing.T) {
	build := func(context.Context) (*solitary, error) { return new(solitary), nil }
	for _, tt := range []struct {
		name string
		opts []envserver.Option
		want string
	}{
		{"one session needs no declaration", []envserver.Option{envserver.WithMaxSessions(1)}, ""},
		{"undeclared", []envserver.Option{envserver.WithMaxSessions(4)}, "envserver.New: 4 sessions: environment solitary does not declare"},
		{"declared by the server", []envserver.Option{envserver.WithMaxSessions(4), envserver.WithConcurrentSessions()}, ""},
		{"no session", []envserver.Option{envserver.WithMaxSessions(0)}, "WithMaxSessions: 0 is below 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := envserver.New(openenv.Spec[labAction, labObservation, openenv.State]{Name: "solitary"}, build, tt.opts...)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want %q", err, tt.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		a, b := w.dial(""), w.dial("")
		a.do("x", 0)
		want(t, a.do("x", 0), `"n":2`)
		want(t, b.do("x", 0), `"n":1`)
	})
}

type solitary struct{}

func (*solitary) Reset(context.Context, envserver.ResetParams) (labResult, error) {
	return labResult{}, nil
}
func (*solitary) Step(context.Context, labAction) (labResult, error) { return labResult{}, nil }
func (*solitary) State(context.Context) (openenv.State, error)       { return openenv.State{}, nil }

// Report 34: a slot is taken before the build, and given back on every failure.
func TestCapacityRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := serveLab(t, &lab{build: func(context.Context) error { time.Sleep(200 * time.Millisecond); return nil }})
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex
			refused int
		)
		for range 100 {
			wg.Go(func() {
				s := w.dial("")
				// The network in memory holds no bytes: who writes to a server that
				// refuses must read at the same time.
				wg.Go(func() { _ = s.ws.Write(context.Background(), websocket.MessageText, []byte(`{"type":"state"}`)) })
				frame := s.receive()
				if strings.Contains(frame, "CAPACITY_REACHED") {
					want(t, frame, `"message":"Server at capacity: 8/8 sessions active. Cannot accept new connections."`, `"active_sessions":8`, `"max_sessions":8`)
					want(t, s.receive(), "closed 1000")
					mu.Lock()
					refused++
					mu.Unlock()
					return
				}
				want(t, frame, `"type":"state"`)
				time.Sleep(time.Second) // until all have tried
				s.send(`{"type":"close"}`)
				want(t, s.receive(), "closed 1000")
			})
		}
		wg.Wait()
		if _, peak := w.living(); peak > 8 || refused != 92 {
			t.Errorf("%d alive at once, %d refused, want 8 and 92", peak, refused)
		}
		w.check(t, 8)
		_, metrics := w.get("/metrics", "")
		want(t, metrics, "openenv_sessions_refused_total 92", "openenv_sessions_active 0", "openenv_sessions_limit 8")
	})
}

func TestFailedBuildsGiveTheirSlotsBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(context.Context) error
	}{
		{"error", func(context.Context) error { return errors.New("no licence for key s3cret") }},
		{"panic", func(context.Context) error { panic("no licence for key s3cret") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				l := &lab{build: tt.build}
				w := serveLab(t, l)
				for range 50 {
					s := w.dial("")
					frame := s.receive()
					want(t, frame, `"code":"FACTORY_ERROR"`, `"factory_name":"lab"`, "Environment factory 'lab' failed to create instance.")
					if strings.Contains(frame, "s3cret") {
						t.Errorf("%s tells what the build said", frame)
					}
					want(t, s.receive(), "closed 1000")
				}
				want(t, w.rpc("openenv/session/create", "{}"), `"code":-32000`, `"factory_name":"lab"`)
				if n := w.srv.ActiveSessions(); n != 0 {
					t.Fatalf("%d slots are lost", n)
				}
				l.build = nil
				for range 8 {
					want(t, w.dial("").do("x", 0), `"n":1`)
				}
				want(t, w.dial("").receive(), "8/8")
			})
		})
	}
}

// An environment whose client leaves while it is built is closed once, after that, and
// holds its slot so long. One that heeds its ctx is not built at all.
func TestAbandonedBuild(t *testing.T) {
	ignore := func(context.Context) error { time.Sleep(time.Second); return nil }
	heed := func(ctx context.Context) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, tt := range []struct {
		name  string
		build func(context.Context) error
		opts  []envserver.Option
		built int
	}{
		{"ignores its ctx", ignore, nil, 1},
		{"heeds its ctx", heed, nil, 0},
		{"on a thread", ignore, []envserver.Option{envserver.WithLockedThread()}, 1},
		{"on a shared thread", ignore, []envserver.Option{envserver.WithSharedThread()}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := serveLab(t, &lab{build: tt.build}, tt.opts...)
				s := w.dial("")
				time.Sleep(100 * time.Millisecond)
				_ = s.ws.CloseNow()
				settle()
				if n := w.srv.ActiveSessions(); n != tt.built {
					t.Errorf("%d slots are taken while the build goes on, want %d", n, tt.built)
				}
				time.Sleep(time.Second)
				settle()
				if n := w.srv.ActiveSessions(); n != 0 {
					t.Errorf("%d slots are taken after the build", n)
				}
				w.check(t, tt.built)
			})
		})
	}
}
