package envserver_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// Report 48: a session with a request in flight is never idle, any message is activity,
// and silence frees the slot.
func TestIdleLimit(t *testing.T) {
	const limit = 200 * time.Millisecond
	for _, tt := range []struct {
		name string
		use  func(*session) // ends with the last activity
	}{
		{"a step longer than the limit", func(s *session) { want(s.t, s.do("sleep", 1000), `"did":"sleep"`) }},
		{"a step longer than the limit, again and again", func(s *session) {
			for range 3 {
				want(s.t, s.do("sleep", 1000), `"did":"sleep"`)
				time.Sleep(limit - time.Millisecond)
			}
			s.do("x", 0)
		}},
		{"a state now and then", func(s *session) { every(s, `{"type":"state"}`, `"type":"state"`) }},
		{"an mcp frame now and then", func(s *session) { every(s, `{"type":"mcp","data":{"jsonrpc":"2.0","method":"x","id":1}}`, `"mcp"`) }},
		{"a refused frame now and then", func(s *session) { every(s, `{"type":"nope"}`, "UNKNOWN_TYPE") }},
		{"an invalid action now and then", func(s *session) { every(s, `{"type":"step","data":{"x":1}}`, "VALIDATION_ERROR") }},
		{"nothing", func(*session) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := inMemory(t, envserver.WithIdleTimeout(limit))
				s := w.dial("")
				settle()
				tt.use(s)
				last := time.Now()
				want(t, s.receive(), "closed 1001 session was idle for too long")
				if took := time.Since(last); took < limit || took > limit+10*time.Millisecond {
					t.Errorf("ended after %v of silence", took)
				}
				settle()
				if n := w.srv.ActiveSessions(); n != 0 {
					t.Errorf("%d slots are taken", n)
				}
				w.check(t, 1)
			})
		})
	}
}

func every(s *session, frame, reply string) {
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		s.send(frame)
		want(s.t, s.receive(), reply)
	}
}

// A session made over HTTP is idle when neither its socket nor HTTP uses it. The
// socket on an idle one is closed with it.
func TestIdleLimitOfASessionMadeOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithIdleTimeout(time.Minute), envserver.WithKeepalive(0, 0))
		id := w.create()
		time.Sleep(50 * time.Second)
		s := w.dial("?session_id=" + id)
		time.Sleep(50 * time.Second)
		want(t, s.do("x", 0), `"n":1`)
		_ = s.ws.CloseNow()
		time.Sleep(50 * time.Second)
		s = w.dial("?session_id=" + id)
		want(t, s.do("x", 0), `"n":2`)
		want(t, s.receive(), "closed 1001 session was idle for too long")
		settle()
		want(t, w.dial("?session_id="+id).receive(), "SESSION_ERROR", "Unknown session_id: "+id)
		w.check(t, 1)
	})
}

// Report 46: a call that exceeds its limit is answered at once, and no other call
// reaches the environment before it has returned.
func TestStepLimit(t *testing.T) {
	for _, place := range []struct {
		name string
		opts []envserver.Option
	}{{"", nil}, {"on a thread", []envserver.Option{envserver.WithLockedThread()}}, {"on a shared thread", []envserver.Option{envserver.WithSharedThread()}}} {
		t.Run(place.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := inMemory(t, append(place.opts, envserver.WithStepTimeout(100*time.Millisecond))...)
				s := w.dial("")
				start := time.Now()
				want(t, s.do("ignore", 1000), `"code":"EXECUTION_ERROR"`, "step exceeded the limit of 100ms")
				if took := time.Since(start); took > 110*time.Millisecond {
					t.Errorf("answered after %v", took)
				}
				s.send(`{"type":"reset","data":{}}`)
				want(t, s.receive(), "EXECUTION_ERROR", "environment is busy with a call that exceeded its limit of 100ms")
				time.Sleep(time.Second)
				// The late result is nobody's: the next reply is the next call's.
				want(t, s.do("x", 0), `"did":"x"`, `"n":2`)
				s.send(`{"type":"state"}`)
				want(t, s.receive(), `"fen":"8/8"`)

				want(t, s.do("sleep", 1000), "EXECUTION_ERROR", "step exceeded the limit of 100ms")
				want(t, s.do("sleep", 99), `"did":"sleep"`) // one that heeds its ctx is ready again

				want(t, s.do("ignore then panic", 1000), "step exceeded the limit of 100ms")
				time.Sleep(time.Second)
				want(t, s.do("x", 0), "EXECUTION_ERROR", "environment panicked: late")
				want(t, s.receive(), "closed 1011 environment panicked")
				settle()
				w.check(t, 1)
			})
		})
	}
}

// The limit holds over HTTP, too: the client is answered, the environment is closed
// when its call has returned, and no more of them are made than there are slots.
func TestStepLimitOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithStepTimeout(100*time.Millisecond), envserver.WithMaxSessions(2))
		start := time.Now()
		for range 2 {
			status, body := w.get("/step", `{"action":{"do":"ignore","ms":1000}}`)
			if status != 500 || !strings.Contains(body, "step exceeded the limit") {
				t.Errorf("%d %s", status, body)
			}
		}
		if took := time.Since(start); took > 250*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
		if status, _ := w.get("/step", `{"action":{"do":"x"}}`); status != 200 || time.Since(start) < time.Second {
			t.Errorf("%d after %v: a third environment was made", status, time.Since(start))
		}
		settle()
		time.Sleep(time.Second)
		w.check(t, 3)
	})
}

// The thread that all sessions share is waited for no longer than a call may take.
func TestABusySharedThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithSharedThread(), envserver.WithStepTimeout(time.Second))
		a, b := w.dial(""), w.dial("")
		a.do("x", 0)
		b.do("x", 0)
		a.send(stepFrame("ignore", 10_000))
		settle()
		time.Sleep(time.Millisecond)
		want(t, b.do("x", 0), "EXECUTION_ERROR", "the environments' thread was not free within 1s")
		late := w.dial("") // its build waits, and is given up with its client
		time.Sleep(time.Second)
		_ = late.ws.CloseNow()
		settle()
		if n := w.srv.ActiveSessions(); n != 2 {
			t.Errorf("%d slots are taken", n)
		}
		time.Sleep(10 * time.Second)
		want(t, b.do("x", 0), `"n":2`)
		want(t, a.receive(), "step exceeded the limit of 1s")
	})
}

// A peer that vanished without a word holds its slot no longer than the keepalive says;
// one that answers pings keeps it through any silence.
func TestKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithMaxSessions(2), envserver.WithKeepalive(20*time.Second, 20*time.Second))
		gone, there := w.dial(""), w.dial("")
		gone.do("x", 0)
		there.do("x", 0)
		replies := make(chan string, 1)
		go func() { replies <- there.receive() }()
		time.Sleep(39 * time.Second)
		want(t, w.dial("").receive(), "CAPACITY_REACHED")
		time.Sleep(3 * time.Second)
		if n := w.srv.ActiveSessions(); n != 1 {
			t.Errorf("%d slots are taken, want that of the living peer", n)
		}
		time.Sleep(time.Hour)
		there.send(stepFrame("x", 0))
		want(t, <-replies, `"n":2`)
	})
}

// Reports 25, 47 and 50: a client that leaves cancels its own session's call and no
// other; the environment is closed and nothing crashes.
func TestCancelScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		a, b := w.dial(""), w.dial("")
		a.send(stepFrame("sleep", 3000))
		b.send(stepFrame("sleep", 3000))
		time.Sleep(100 * time.Millisecond)
		_ = a.ws.CloseNow()
		settle()
		w.mu.Lock()
		canceled, alive := w.canceled, w.alive
		w.mu.Unlock()
		if len(canceled) != 1 || !strings.Contains(canceled[0].Error(), "client left") || alive != 1 {
			t.Errorf("%d alive, canceled: %v", alive, canceled)
		}
		want(t, b.receive(), `"did":"sleep"`)
		want(t, b.do("x", 0), `"n":2`)
	})
}

// A session made over HTTP outlives its socket: so does its call.
func TestASessionMadeOverHTTPOutlivesItsSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		id := w.create()
		s := w.dial("?session_id=" + id)
		settle() // the upgrade succeeds before the socket is attached
		want(t, w.dial("?session_id="+id).receive(), "SESSION_ERROR", "Session "+id+" already has an attached WebSocket")
		s.send(stepFrame("sleep", 3000))
		time.Sleep(time.Second)
		_ = s.ws.CloseNow()
		settle()
		want(t, w.dial("?session_id="+id).receive(), "already has an attached WebSocket")
		time.Sleep(3 * time.Second)
		s = w.dial("?session_id=" + id)
		want(t, s.do("x", 0), `"n":2`)
		if len(w.canceled) != 0 {
			t.Errorf("the call was canceled: %v", w.canceled)
		}
		s.send(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}}`)
		want(t, s.receive(), `"session_id":"`+id+`"`)
		s.send(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"openenv/session/close","params":{"session_id":"` + id + `"}}}`)
		want(t, s.receive(), "Cannot close active WebSocket-managed session via MCP method")
		want(t, w.rpc("openenv/session/close", `{"session_id":"`+id+`"}`), `"closed":false`, `"closing":true`)
		want(t, s.do("x", 0), `"n":3`) // until its socket goes
		s.send(`{"type":"close"}`)
		want(t, s.receive(), "closed 1000")
		settle()
		want(t, w.dial("?session_id="+id).receive(), "Unknown session_id: "+id)
		w.check(t, 1)
	})
}

// Who sends more than the server reads ahead during a call meets back pressure, and
// gets every answer.
func TestFloodDuringACall(t *testing.T) {
	leak.Check(t)
	l := new(lab)
	w := &world{lab: l, t: t, srv: l.server(t)}
	w.at = openenvtest.ServeLoopback(t, w.srv)
	s := w.dial("")
	const n = 30
	sent := make(chan int, 1)
	go func() {
		s.send(stepFrame("sleep", 500))
		for range n {
			if err := s.ws.Write(context.Background(), websocket.MessageBinary, make([]byte, 1<<20)); err != nil {
				t.Error(err)
			}
		}
		sent <- n
	}()
	time.Sleep(400 * time.Millisecond) // real sockets have buffers, and real time
	if len(sent) != 0 {
		t.Error("the server read everything ahead")
	}
	want(t, s.receive(), `"did":"sleep"`)
	for range n {
		if frame := s.receive(); !strings.Contains(frame, `INVALID_JSON`) {
			t.Fatalf("got %.100s", frame)
		}
	}
	<-sent
}
