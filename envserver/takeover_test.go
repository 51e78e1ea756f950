package envserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// A second socket takes a session over: the first is gone, its running call goes on, what
// it had not begun with is not begun.
func TestTakeover(t *testing.T) {
	for _, place := range places() {
		for _, tt := range []struct {
			name string
			then func(w *world, id string, newer *session) // 1 is running for the older socket, 2 and 3 are queued
		}{
			{"the request in progress is asked for again", func(w *world, _ string, newer *session) {
				start := time.Now()
				want(w.t, newer.ask(stepNo(1, "sleep", 10_000)), `{"id":1,`, `"did":"sleep"`, `"n":1`)
				took(w.t, start, 8990*time.Millisecond)
				want(w.t, newer.ask(stepNo(2, "x", 0)), `{"id":2,`, `"n":2`)
				want(w.t, newer.ask(stepNo(3, "x", 0)), `{"id":3,`, `"n":3`)
			}},
			{"all are asked for again, at once", func(w *world, _ string, newer *session) {
				for i, what := range []string{"sleep", "x", "x"} {
					newer.send(stepNo(i+1, what, 10_000))
				}
				for i := range 3 {
					want(w.t, newer.receive(), fmt.Sprintf(`{"id":%d,`, i+1), fmt.Sprintf(`"n":%d`, i+1))
				}
			}},
			{"the request in progress is not asked for again", func(w *world, _ string, newer *session) {
				want(w.t, newer.ask(stepNo(7, "x", 0)), `{"id":7,`, `"n":2`)
				want(w.t, newer.ask(stepNo(2, "x", 0)), `{"id":2,`, "STALE_REQUEST")
				want(w.t, newer.ask(stepNo(1, "x", 0)), `{"id":1,`, `"did":"sleep"`)
				want(w.t, newer.ask(stepNo(3, "x", 0)), `{"id":3,`, "STALE_REQUEST")
			}},
			{"the request in progress is cancelled", func(w *world, _ string, newer *session) {
				start := time.Now()
				newer.send(cancelOf(1))
				want(w.t, newer.ask(stepNo(1, "sleep", 10_000)), `{"id":1,`, "CANCELLED")
				took(w.t, start, 0)
				want(w.t, newer.ask(stepNo(2, "x", 0)), `"n":2`)
			}},
			{"the request in progress is asked for again, then cancelled", func(w *world, _ string, newer *session) {
				newer.send(stepNo(1, "sleep", 10_000))
				newer.send(stepNo(2, "x", 0))
				time.Sleep(time.Second)
				start := time.Now()
				want(w.t, newer.ask(cancelOf(1)), `{"id":1,`, "CANCELLED")
				took(w.t, start, 0)
				want(w.t, newer.receive(), `{"id":2,`, `"n":2`)
			}},
			{"one that waits for it is cancelled", func(w *world, _ string, newer *session) {
				newer.send(stepNo(2, "sleep", 10_000))
				time.Sleep(time.Second)
				want(w.t, newer.ask(cancelOf(2)), `{"id":2,`, "CANCELLED")
				want(w.t, newer.ask(stepNo(1, "x", 0)), `{"id":1,`, `"did":"sleep"`, `"n":1`)
			}},
			{"a third takes over while the second waits", func(w *world, id string, newer *session) {
				newer.send(stepNo(1, "sleep", 10_000))
				newer.send(stepNo(2, "x", 0))
				time.Sleep(time.Second)
				third := w.attach(id)
				want(w.t, third.ask(stepNo(1, "sleep", 10_000)), `{"id":1,`, `"n":1`)
				want(w.t, third.ask(stepNo(2, "x", 0)), `{"id":2,`, `"n":2`)
			}},
			{"the second leaves while it waits", func(w *world, id string, newer *session) {
				newer.send(stepNo(2, "x", 0))
				time.Sleep(time.Second)
				_ = newer.ws.CloseNow()
				time.Sleep(20 * time.Second)
				third := w.attach(id)
				want(w.t, third.ask(stepNo(1, "x", 0)), `"did":"sleep"`)
				want(w.t, third.ask(stepNo(3, "x", 0)), `{"id":3,`, `"n":2`)
			}},
			{"the session is closed", func(w *world, _ string, newer *session) {
				newer.send(cancelOf(1))
				want(w.t, newer.ask(numbered(9, `{"type":"close"}`)), "closed 1000")
			}},
			{"the server shuts down", func(w *world, _ string, newer *session) {
				newer.send(stepNo(1, "x", 0))
				time.Sleep(time.Millisecond)
				shut := make(chan struct{})
				go func() { defer close(shut); w.shutdown() }()
				want(w.t, newer.receive(), `{"id":1,`, `"did":"sleep"`)
				want(w.t, newer.receive(), "closed 1001")
				<-shut
			}},
		} {
			t.Run(tt.name+", "+place.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leak.Check(t)
					w := inMemory(t, place.opts...)
					id := w.create()
					older := w.attach(id)
					older.send(stepNo(1, "sleep", 10_000))
					older.send(stepNo(2, "x", 0))
					older.send(stepNo(3, "x", 0))
					time.Sleep(time.Second)
					newer := w.attach(id)
					want(t, older.receive(), "lost")
					tt.then(w, id, newer)
					w.shutdown()
					w.check(t, 1)
				})
			})
		}
	}
}

// Only sockets with numbers take over from each other: a plain client keeps the peer's
// rule.
func TestPlainSocketsTakeNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		id := w.create()
		refusal := fmt.Sprintf(`{"type":"error","data":{"code":"SESSION_ERROR","message":"Session %s already has an attached WebSocket"}}`, id)
		s := w.attach(id)
		want(t, w.dial("?session_id="+id).receive(), refusal)
		want(t, s.ask(stepNo(1, "x", 0)), `"n":1`)
		_ = s.ws.CloseNow()
		settle()
		plain := w.dial("?session_id=" + id)
		settle()
		want(t, w.attach(id).receive(), refusal)
		want(t, plain.do("x", 0), `"n":2`)
		w.shutdownWith(plain)
		w.check(t, 1)
	})
}

// A session that is to be closed is nobody's to take over.
func TestNoTakeoverOfASessionThatIsClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		id := w.create()
		s := w.attach(id)
		settle()
		want(t, w.rpc("openenv/session/close", `{"session_id":"`+id+`"}`), `"closing":true`)
		want(t, w.attach(id).receive(), "SESSION_ERROR", "Unknown session_id: "+id)
		want(t, s.ask(stepNo(1, "x", 0)), `"n":1`)
		_ = s.ws.CloseNow()
		settle()
		w.check(t, 1)
	})
}

// A client that reads nothing any more is taken over from at once, although the server
// is in the middle of writing to it.
func TestTakeoverFromAClientThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		id := w.create()
		older := w.attach(id)
		older.send(stepNo(1, "big", 100_000))
		settle()
		start := time.Now()
		newer := w.attach(id)
		want(t, newer.ask(stepNo(1, "x", 0)), `{"id":1,`, `xxxx`, `"n":1`)
		took(t, start, 0)
		w.shutdownWith(newer)
		w.check(t, 1)
	})
}

// A panic for a lost socket is told to the one that took over, and ends the session.
func TestPanicForALostSocket(t *testing.T) {
	for _, tt := range []struct {
		name string
		ask  string
	}{
		{"the request is asked for again", stepNo(1, "x", 0)},
		{"another request comes", stepNo(2, "x", 0)},
	} {
		for _, place := range places() {
			t.Run(tt.name+", "+place.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leak.Check(t)
					w := inMemory(t, place.opts...)
					id := w.create()
					w.attach(id).send(stepNo(1, "ignore then panic", 1000))
					time.Sleep(time.Millisecond)
					newer := w.attach(id)
					want(t, newer.ask(tt.ask), tt.ask[:7], `"code":"EXECUTION_ERROR","message":"environment panicked: late"`)
					want(t, newer.receive(), "closed 1011 environment panicked")
					settle()
					want(t, w.attach(id).receive(), "Unknown session_id")
					w.check(t, 1)
				})
			})
		}
	}
}

// Whatever the interleaving of sockets, cuts and calls: every request is applied once, in
// order, and has its own reply. The n-th step says n only then.
func TestRequestsAreAppliedOnce(t *testing.T) {
	leak.Check(t)
	const (
		clients  = 4
		requests = 150
	)
	w := &world{lab: new(lab), t: t}
	w.srv = w.server(t, envserver.WithKeepalive(0, 0))
	w.at = servedOnLoopback(t, w.srv)
	done := make(chan error, clients)
	for i := range clients {
		id := w.create()
		go func() { done <- w.insist(id, requests, rand.New(rand.NewPCG(uint64(i), 1))) }()
	}
	for range clients {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	w.shutdown()
	w.check(t, clients)
}

// insist plays steps on a session over sockets that it cuts and replaces at random
// moments, with the older ones left open or not.
func (w *world) insist(id string, requests int, random *rand.Rand) error {
	const window = 6
	sockets, cuts := 0, 0
	answered := 0 // all up to this number
	defer func() { w.t.Logf("%d sockets, %d of them cut", sockets, cuts) }()
	for answered < requests {
		ws, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(w.at.URL(), "http")+"/ws?session_id="+id,
			&websocket.DialOptions{HTTPClient: w.at.HTTPClient(), Subprotocols: []string{sessionV1}})
		if err != nil {
			return err
		}
		sockets++
		defer ws.CloseNow()
		sent := answered
		for trips := random.IntN(12); trips >= 0 && answered < requests; trips-- {
			for ; sent < min(answered+1+random.IntN(window), requests); sent++ {
				if err := ws.Write(context.Background(), websocket.MessageText, []byte(stepNo(sent+1, "sleep", random.IntN(4)))); err != nil {
					return err
				}
			}
			if trips == 0 || sent == answered {
				continue
			}
			_, frame, err := ws.Read(context.Background())
			if err != nil {
				return fmt.Errorf("request %d: %w", answered+1, err)
			}
			answered++
			if got := string(frame); !strings.HasPrefix(got, fmt.Sprintf(`{"id":%d,"type":"observation"`, answered)) || !strings.Contains(got, fmt.Sprintf(`"n":%d,`, answered)) {
				return fmt.Errorf("request %d: got %s", answered, got)
			}
		}
		if random.IntN(2) == 0 {
			cuts++
			_ = ws.CloseNow()
		}
		time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
	}
	return nil
}
