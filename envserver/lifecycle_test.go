package envserver_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// Every environment is closed exactly once, however its session ends, and its slot is
// free then.
func TestEnvironmentsAreClosedOnce(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opts  []envserver.Option
		end   func(w *world)
		built int
	}{
		{name: "close frame", built: 1, end: func(w *world) {
			s := w.dial("")
			s.do("x", 0)
			s.send(`{"type":"close"}`)
			want(w.t, s.receive(), "closed 1000")
		}},
		{name: "socket closed", built: 1, end: func(w *world) {
			s := w.dial("")
			s.do("x", 0)
			_ = s.ws.Close(websocket.StatusNormalClosure, "")
		}},
		{name: "socket lost", built: 1, end: func(w *world) {
			s := w.dial("")
			s.do("x", 0)
			_ = s.ws.CloseNow()
		}},
		{name: "socket lost before the first message", built: 1, end: func(w *world) {
			s := w.dial("")
			settle()
			_ = s.ws.CloseNow()
		}},
		{name: "socket lost during a step", built: 1, end: func(w *world) {
			s := w.dial("")
			s.send(stepFrame("sleep", 60_000))
			time.Sleep(time.Second)
			_ = s.ws.CloseNow()
		}},
		{name: "socket lost during a step that ignores its ctx", built: 1, end: func(w *world) {
			s := w.dial("")
			s.send(stepFrame("ignore", 2000))
			time.Sleep(time.Second)
			_ = s.ws.CloseNow()
			settle()
			if w.srv.ActiveSessions() != 1 {
				w.t.Error("the slot is free while the environment is in use")
			}
			time.Sleep(2 * time.Second)
		}},
		{name: "shutdown of an idle session", built: 1, end: func(w *world) {
			s := w.dial("")
			s.do("x", 0)
			w.shutdownWith(s)
		}},
		{name: "shutdown during a step", built: 1, end: func(w *world) {
			s := w.dial("")
			s.send(stepFrame("sleep", 5000))
			time.Sleep(time.Second)
			w.shutdownWith(s)
		}},
		{name: "panic in a step", built: 1, end: func(w *world) { w.dial("").do("panic", 0) }},
		{name: "idle", built: 1, opts: []envserver.Option{envserver.WithIdleTimeout(time.Minute)}, end: func(w *world) {
			s := w.dial("")
			want(w.t, s.receive(), "closed 1001 session was idle for too long")
		}},
		{name: "no first message", built: 1, opts: []envserver.Option{envserver.WithFirstMessageTimeout(time.Minute)}, end: func(w *world) {
			s := w.dial("")
			want(w.t, s.receive(), "closed 1001 no first message in time")
		}},
		{name: "peer vanished", built: 1, opts: []envserver.Option{envserver.WithKeepalive(time.Second, time.Second)}, end: func(w *world) {
			w.dial("") // reads nothing, so it answers no ping
			time.Sleep(5 * time.Second)
		}},
		{name: "step limit, then the client leaves", built: 1, opts: []envserver.Option{envserver.WithStepTimeout(time.Second)}, end: func(w *world) {
			s := w.dial("")
			want(w.t, s.do("ignore", 3000), "EXECUTION_ERROR", "step exceeded the limit of 1s")
			_ = s.ws.CloseNow()
			time.Sleep(3 * time.Second)
		}},
		{name: "made and closed over HTTP", built: 1, end: func(w *world) {
			id := w.create()
			want(w.t, w.rpc("openenv/session/close", `{"session_id":"`+id+`"}`), `"closed":true`)
			want(w.t, w.rpc("openenv/session/close", `{"session_id":"`+id+`"}`), "Unknown session_id: "+id)
		}},
		{name: "made over HTTP and forgotten", built: 1, opts: []envserver.Option{envserver.WithIdleTimeout(time.Minute)}, end: func(w *world) {
			w.create()
			time.Sleep(2 * time.Minute)
		}},
		{name: "made over HTTP, at shutdown", built: 1, end: func(w *world) { w.create(); w.shutdown() }},
		{name: "closed and shut down at once", built: 1, end: func(w *world) {
			id := w.create()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { w.rpc("openenv/session/close", `{"session_id":"`+id+`"}`) })
				wg.Go(w.shutdown)
			}
			wg.Wait()
		}},
		{name: "throw-away reset, step, state, tasks", built: 3, end: func(w *world) {
			w.get("/reset", "{}")
			w.get("/step", `{"action":{"do":"panic"}}`)
			w.get("/state", "")
		}},
		{name: "refused frames", built: 1, end: func(w *world) {
			s := w.dial("")
			s.send(`{"type":"step","data":{}}`)
			want(w.t, s.receive(), "VALIDATION_ERROR")
			_ = s.ws.CloseNow()
		}},
	} {
		for _, place := range []struct {
			name string
			opts []envserver.Option
		}{{"", nil}, {" on a thread", []envserver.Option{envserver.WithLockedThread()}}, {" on a shared thread", []envserver.Option{envserver.WithSharedThread()}}} {
			t.Run(tt.name+place.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leak.Check(t)
					w := inMemory(t, append(tt.opts, place.opts...)...)
					tt.end(w)
					settle()
					time.Sleep(2 * time.Second) // a client that is gone does not answer the close
					settle()
					w.check(t, tt.built)
					if n := w.srv.ActiveSessions(); n != 0 {
						t.Errorf("%d slots are taken", n)
					}
				})
			})
		}
	}
}

// shutdownWith shuts down while a client that heeds a close is there.
func (w *world) shutdownWith(s *session) {
	w.t.Helper()
	gone := make(chan string, 1)
	go func() {
		last := ""
		for {
			frame := s.receive()
			if strings.HasPrefix(frame, "closed") || frame == "lost" {
				gone <- last + frame
				return
			}
			last = frame
		}
	}()
	w.shutdown()
	want(w.t, <-gone, "closed 1001 server is shutting down")
}

// Report 41: the normal end of a session is not an error, nor anything above debug.
func TestCleanEndsAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		var log bytes.Buffer
		w := inMemory(t, envserver.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))))
		for i := range 100 {
			s := w.dial("")
			s.send(`{"type":"reset","data":{}}`)
			want(t, s.receive(), "observation")
			switch i % 3 {
			case 0:
				s.send(`{"type":"close"}`)
				want(t, s.receive(), "closed 1000")
			case 1:
				_ = s.ws.Close(websocket.StatusNormalClosure, "")
			default:
				_ = s.ws.CloseNow()
			}
		}
		w.create()
		w.shutdown()
		w.check(t, 101)
		if log.Len() > 0 {
			t.Errorf("logged above debug:\n%s", log.String())
		}
	})
}

// What does go wrong is logged with the session's id, at its level.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		var log bytes.Buffer
		w := inMemory(t, envserver.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		w.dial("").do("panic", 0)
		settle()
		w.build = func(context.Context) error { panic("no display") }
		w.dial("").receive()
		settle()
		want(t, log.String(), `level=ERROR msg="environment panicked" session=`, "panic=boom", "stack=", "lab_test.go",
			`level=WARN msg="building an environment failed"`, "panic=\"no display\"")
	})
}

// Shutdown closes idle sessions at once, lets calls in progress finish and answers
// them within the grace period, and cancels them then.
func TestShutdown(t *testing.T) {
	for _, tt := range []struct {
		name   string
		action string
		ms     int
		grace  time.Duration
		took   time.Duration
		reply  string
		err    string
	}{
		{"nothing in progress", "", 0, time.Minute, 0, "closed 1001 server is shutting down", ""},
		{"a call that ends in time", "sleep", 10_000, time.Minute, 10 * time.Second, `"did":"sleep"`, ""},
		{"a call that heeds its ctx", "sleep", 600_000, time.Minute, time.Minute, `"message":"server is shutting down"`, "shutdown: calls were cancelled: context deadline exceeded"},
		{"a call that does not, but ends", "ignore", 63_000, time.Minute, 63 * time.Second, "lost", "shutdown: calls were cancelled: context deadline exceeded"},
		{"a call that does not", "ignore", 90_000, time.Minute, 65 * time.Second, "lost", "shutdown: environments do not heed their ctx (1 sessions are open)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := inMemory(t)
				idle, busy := w.dial(""), w.dial("")
				idle.do("x", 0)
				busy.do("x", 0)
				managed := w.create()
				idleGone, reply := make(chan time.Time, 1), make(chan string, 1)
				go func() { idle.receive(); idleGone <- time.Now() }()
				if tt.action != "" {
					busy.send(stepFrame(tt.action, tt.ms))
					time.Sleep(time.Millisecond)
				}
				go func() { reply <- busy.receive(); busy.receive() }() // reads on, to answer the close
				ctx, cancel := context.WithTimeout(t.Context(), tt.grace)
				defer cancel()
				start := time.Now()
				err := w.srv.Shutdown(ctx)
				took := time.Since(start).Round(time.Second)
				if got := errorText(err); got != tt.err || took != tt.took {
					t.Errorf("Shutdown after %v: %q, want %v: %q", took, got, tt.took, tt.err)
				}
				if gone := <-idleGone; gone.Sub(start) > time.Second {
					t.Errorf("the idle session ended after %v", gone.Sub(start))
				}
				want(t, <-reply, tt.reply)
				if body := w.rpc("openenv/session/close", `{"session_id":"`+managed+`"}`); !strings.Contains(body, "Unknown session_id") {
					t.Errorf("the session made over HTTP is still there: %s", body)
				}
				if _, err := w.tryDial("", nil); err == nil || !strings.Contains(err.Error(), "503") {
					t.Errorf("a new session after Shutdown: %v", err)
				}
				if status, body := w.get("/state", ""); status != 503 {
					t.Errorf("a throw-away call after Shutdown: %d %s", status, body)
				}
				time.Sleep(time.Minute)
				w.check(t, 3)
				if err := w.srv.Shutdown(t.Context()); err != nil {
					t.Errorf("again: %v", err)
				}
			})
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A reply that is under way when the server begins to shut down is not cut off, and a
// message is either answered or was not looked at.
func TestShutdownUnderLoad(t *testing.T) {
	leak.Check(t)
	for range 20 {
		l := new(lab)
		w := &world{lab: l, t: t, srv: l.server(t)}
		w.at = servedOnLoopback(t, w.srv)
		var wg sync.WaitGroup
		for range 8 {
			s := w.dial("")
			wg.Go(func() {
				for n := 1; ; n++ {
					if s.ws.Write(context.Background(), websocket.MessageText, []byte(stepFrame("x", 0))) != nil {
						return
					}
					if frame := s.receive(); !strings.Contains(frame, `"did":"x"`) {
						if frame != "closed 1001 server is shutting down" && frame != "lost" {
							t.Errorf("got %s", frame)
						}
						return
					}
				}
			})
		}
		time.Sleep(2 * time.Millisecond)
		w.shutdown()
		wg.Wait()
		l.mu.Lock()
		built := l.built
		l.mu.Unlock()
		l.check(t, built)
	}
}
