package envserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

const sessionV1 = "openenv.session.v1"

// offer dials a socket that offers the subprotocol.
func (w *world) offer(query string) *session {
	w.t.Helper()
	ws, _, err := websocket.Dial(w.t.Context(), "ws"+strings.TrimPrefix(w.at.URL(), "http")+"/ws"+query,
		&websocket.DialOptions{HTTPClient: w.at.HTTPClient(), Subprotocols: []string{"x", sessionV1}})
	if err != nil {
		w.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	w.t.Cleanup(func() { _ = ws.CloseNow() }) // closed already, as a rule
	return &session{w.t, ws}
}

// attach puts a socket with numbers on a session.
func (w *world) attach(id string) *session {
	w.t.Helper()
	s := w.offer("?session_id=" + id)
	if got := s.ws.Subprotocol(); got != sessionV1 {
		w.t.Fatalf("subprotocol %q", got)
	}
	return s
}

// stepNo is a step with a number.
func stepNo(id int, what string, ms int) string { return numbered(id, stepFrame(what, ms)) }

func numbered(id int, plain string) string { return fmt.Sprintf(`{"id":%d,%s`, id, plain[1:]) }

func cancelOf(id int) string { return fmt.Sprintf(`{"id":%d,"type":"cancel"}`, id) }

// ask sends a frame and returns the reply.
func (s *session) ask(frame string) string {
	s.t.Helper()
	s.send(frame)
	return s.receive()
}

// Only a socket on a session that outlives it speaks the subprotocol; every other one
// sees plain frames, whatever it offers.
func TestWhoSpeaksTheSubprotocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		own := w.offer("")
		if got := own.ws.Subprotocol(); got != "" {
			t.Errorf("a session of its own speaks %q", got)
		}
		want(t, own.do("x", 0), `{"type":"observation","data":{`)
		want(t, own.ask(stepNo(1, "x", 0)), "VALIDATION_ERROR", `"loc":["id"]`)

		id := w.create()
		plain := w.dial("?session_id=" + id)
		want(t, plain.do("x", 0), `{"type":"observation","data":{`)
		_ = plain.ws.CloseNow()
		settle()
		s := w.attach(id)
		want(t, s.ask(stepNo(1, "x", 0)), `{"id":1,"type":"observation","data":{`, `"n":2`)
		want(t, w.attach("nobody").receive(), `{"type":"error","data":{"code":"SESSION_ERROR","message":"Unknown session_id: nobody"`)
	})
}

func TestNumberedFrames(t *testing.T) {
	type exchange struct{ send, want string }
	for _, tt := range []struct {
		name  string
		opts  []envserver.Option
		steps int // that the environment has seen afterwards
		talk  []exchange
	}{
		{name: "every kind of frame", steps: 2, talk: []exchange{
			{numbered(1, `{"type":"reset","data":{"seed":5}}`), `{"id":1,"type":"observation","data":{"observation":{"metadata":{},"did":"reset","n":5`},
			{stepNo(2, "x", 0), `{"id":2,"type":"observation","data":{"observation":{"metadata":{},"did":"x","n":1`},
			{`{"id":3,"type": "step", "data": {"do": "error"}}`, `{"id":3,"type":"error","data":{"code":"EXECUTION_ERROR","message":"no such move"}}`},
			{numbered(40, `{"type":"state"}`), `{"id":40,"type":"state","data":{`},
			{numbered(41, `{"type":"mcp","data":{"jsonrpc":"2.0","method":"x","id":9}}`), `{"id":41,"type":"mcp","data":{"jsonrpc":"2.0","id":9,"error":{"code":-32601`},
			{numbered(18446744073709551, `{"type":"nope"}`), `{"id":18446744073709551,"type":"error","data":{"code":"UNKNOWN_TYPE"`},
		}},
		{name: "what is wrong with a frame is told under its number", talk: []exchange{
			{stepNo(1, "x", 0)[:20], `{"id":1,"type":"error","data":{"code":"INVALID_JSON"`},
			{`{"id":2,nonsense`, `{"id":2,"type":"error","data":{"code":"INVALID_JSON"`},
			{`{"id":3,"type":"step","data":{"x":1}}`, `{"id":3,"type":"error","data":{"code":"VALIDATION_ERROR"`},
			{`{"id":4,"type":"state","x":1}`, `{"id":4,"type":"error","data":{"code":"VALIDATION_ERROR"`},
			{`{"id":5,"type":"step","data":{"do":"nan"}}`, `{"id":5,"type":"error","data":{"code":"EXECUTION_ERROR","message":"environment returned a reward of NaN`},
			{`{"id":6,"type":"step","data":{"do":"inf inside"}}`, `{"id":6,"type":"error","data":{"code":"EXECUTION_ERROR","message":"environment returned an observation that cannot be encoded`},
		}, steps: 2},
		{name: "a frame without a number has an answer without one", talk: []exchange{
			{`{"type":"state"}`, `{"type":"error","data":{"code":"INVALID_JSON","message":"Invalid message: frame does not begin with {\"id\":N`},
			{`{"type":"state","id":1}`, `{"type":"error","data":{"code":"INVALID_JSON"`},
			{`{"id":0,"type":"state"}`, `{"type":"error","data":{"code":"INVALID_JSON"`},
			{`{"id":1,"ms":1e3,"type":"state"}`, `{"type":"error","data":{"code":"INVALID_JSON"`},
			{`{"id":1,"ms":-1,"type":"state"}`, `{"type":"error","data":{"code":"INVALID_JSON","message":"Invalid message: \"ms\" is not an integer`},
			{`nonsense`, `{"type":"error","data":{"code":"INVALID_JSON"`},
			{stepNo(1, "x", 0), `"n":1`},
		}, steps: 1},
		{name: "a request that was answered is answered again", talk: []exchange{
			{stepNo(1, "x", 0), `{"id":1,"type":"observation","data":{"observation":{"metadata":{},"did":"x","n":1`},
			{stepNo(2, "error", 0), `{"id":2,"type":"error","data":{"code":"EXECUTION_ERROR","message":"no such move"}}`},
			{stepNo(1, "x", 0), `{"id":1,"type":"observation","data":{"observation":{"metadata":{},"did":"x","n":1`},
			{stepNo(1, "another", 0), `{"id":1,"type":"observation","data":{"observation":{"metadata":{},"did":"x","n":1`},
			{stepNo(2, "error", 0), `{"id":2,"type":"error","data":{"code":"EXECUTION_ERROR","message":"no such move"}}`},
			{`{"id":9,"type":"nope"}`, `{"id":9,"type":"error","data":{"code":"UNKNOWN_TYPE"`},
			{`{"id":9,"type":"nope"}`, `{"id":9,"type":"error","data":{"code":"UNKNOWN_TYPE"`},
		}, steps: 2},
		{name: "a state is asked for anew", talk: []exchange{
			{numbered(1, `{"type":"state"}`), `"step_count":0`},
			{stepNo(3, "x", 0), `"n":1`},
			{numbered(1, `{"type":"state"}`), `{"id":1,"type":"state","data":{"episode_id":"e","step_count":1`},
			{numbered(2, `{"type":"state"}`), `{"id":2,"type":"state","data":{"episode_id":"e","step_count":1`},
		}, steps: 1},
		{name: "a request that was overtaken", talk: []exchange{
			{stepNo(5, "x", 0), `"n":1`},
			{stepNo(4, "x", 0), `{"id":4,"type":"error","data":{"code":"STALE_REQUEST","message":"not applied: a later request came first"}}`},
			{stepNo(4, "x", 0), `{"id":4,"type":"error","data":{"code":"STALE_REQUEST"`},
			{numbered(1, `{"type":"close"}`), `{"id":1,"type":"error","data":{"code":"STALE_REQUEST"`},
			{stepNo(6, "x", 0), `"n":2`},
		}, steps: 2},
		{name: "nothing is kept", opts: []envserver.Option{envserver.WithReplyBuffer(0)}, talk: []exchange{
			{stepNo(1, "x", 0), `"n":1`},
			{stepNo(1, "x", 0), `{"id":1,"type":"error","data":{"code":"REPLY_LOST","message":"applied, and its reply is not kept any more"}}`},
			{numbered(2, `{"type":"state"}`), `"step_count":1`},
			{numbered(2, `{"type":"state"}`), `"step_count":1`},
		}, steps: 1},
		{name: "a reply larger than the bound", opts: []envserver.Option{envserver.WithReplyBuffer(1000)}, talk: []exchange{
			{stepNo(1, "x", 0), `"n":1`},
			{stepNo(2, "big", 1000), `"n":2`},
			{stepNo(2, "big", 1000), `{"id":2,"type":"error","data":{"code":"REPLY_LOST"`},
			{stepNo(1, "x", 0), `{"id":1,"type":"observation"`},
		}, steps: 2},
		{name: "replies that had to go", opts: []envserver.Option{envserver.WithReplyBuffer(1000)}, talk: []exchange{
			{stepNo(1, "big", 300), `"n":1`},
			{stepNo(2, "big", 300), `"n":2`},
			{stepNo(3, "big", 300), `"n":3`},
			{stepNo(1, "big", 300), `{"id":1,"type":"error","data":{"code":"REPLY_LOST"`},
			{stepNo(2, "big", 300), `{"id":2,"type":"observation"`},
			{stepNo(3, "big", 300), `{"id":3,"type":"observation"`},
		}, steps: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := inMemory(t, tt.opts...)
				id := w.create()
				s := w.attach(id)
				for _, x := range tt.talk {
					if got := s.ask(x.send); !strings.HasPrefix(got, x.want) && (strings.HasPrefix(x.want, `{`) || !strings.Contains(got, x.want)) {
						t.Errorf("%s\ngot  %s\nwant %s", x.send, got, x.want)
					}
				}
				want(t, s.ask(numbered(1<<60, `{"type":"state"}`)), fmt.Sprintf(`"step_count":%d`, tt.steps))
				want(t, s.ask(numbered(1<<60+1, `{"type":"close"}`)), "closed 1000")
				settle()
				want(t, w.attach(id).receive(), "SESSION_ERROR", "Unknown session_id")
				w.check(t, 1)
			})
		})
	}
}

// A client that leaves very many gaps gets no guess about its oldest requests.
func TestRequestsTooOldToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithReplyBuffer(0))
		s := w.attach(w.create())
		last := 0
		for range 1100 {
			last += 2
			want(t, s.ask(stepNo(last, "x", 0)), fmt.Sprintf(`{"id":%d,`, last))
		}
		for id, code := range map[int]string{
			1: "EXECUTION_ERROR", 2: "EXECUTION_ERROR", last / 2: "REPLY_LOST", last/2 + 1: "STALE_REQUEST", last: "REPLY_LOST", last - 1: "STALE_REQUEST",
		} {
			want(t, s.ask(stepNo(id, "x", 0)), fmt.Sprintf(`{"id":%d,"type":"error","data":{"code":%q`, id, code))
		}
		want(t, s.ask(stepNo(last+1, "x", 0)), fmt.Sprintf(`"n":%d`, 1101))
	})
}

// Binary frames have no number.
func TestBinaryFrameOnANumberedSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		s := w.attach(w.create())
		if err := s.ws.Write(context.Background(), websocket.MessageBinary, []byte(stepNo(1, "x", 0))); err != nil {
			t.Fatal(err)
		}
		want(t, s.receive(), `{"type":"error","data":{"code":"INVALID_JSON","message":"Invalid message: binary frames`)
		want(t, s.ask(stepNo(1, "x", 0)), `{"id":1,`, `"n":1`)
	})
}

// The time that a caller has left is the deadline of its environment's ctx, from the
// frame's arrival.
func TestDeadlineOfACall(t *testing.T) {
	for _, place := range places() {
		t.Run(place.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := inMemory(t, place.opts...)
				s := w.attach(w.create())
				want(t, s.ask(stepNo(1, "deadline", 0)), place.noDeadline)
				want(t, s.ask(timed(2, 1500, "deadline", 0)), `"rate":1.5`)

				start := time.Now()
				want(t, s.ask(timed(3, 1500, "sleep", 60_000)), `{"id":3,"type":"error","data":{"code":"CANCELLED","message":"deadline of the call exceeded"}}`)
				took(t, start, 1500*time.Millisecond)
				want(t, s.ask(timed(4, 1500, "sleep", 1000)), `"did":"sleep"`)

				want(t, s.ask(`{"id":5,"ms":0,"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/call","id":1}}`), `{"id":5,"type":"error","data":{"code":"CANCELLED"`)
				want(t, s.ask(timed(6, 0, "x", 0)), `{"id":6,"type":"error","data":{"code":"CANCELLED","message":"deadline of the call exceeded"}}`)

				// It counts while the request waits, too.
				start = time.Now()
				s.send(stepNo(7, "sleep", 2000))
				s.send(timed(8, 1000, "x", 0))
				s.send(timed(9, 4000, "deadline", 0))
				want(t, s.receive(), `{"id":7,`, `"did":"sleep"`)
				took(t, start, 2*time.Second)
				want(t, s.receive(), `{"id":8,`, `CANCELLED`)
				want(t, s.receive(), `{"id":9,`, `"rate":2`)
				want(t, s.ask(numbered(10, `{"type":"state"}`)), `"step_count":6`) // 5, 6 and 8 have not begun
				w.canceledBy(t, "deadline of the call exceeded")
			})
		})
	}
}

// timed is a step with a number and a time.
func timed(id, left int, what string, ms int) string {
	return fmt.Sprintf(`{"id":%d,"ms":%d,%s`, id, left, stepFrame(what, ms)[1:])
}

// took fails unless so much time has passed, and at most 50 ms more.
func took(t testing.TB, since time.Time, want time.Duration) {
	t.Helper()
	if d := time.Since(since); d < want || d > want+50*time.Millisecond {
		t.Errorf("after %v, want %v", d, want)
	}
}

// canceledBy fails unless the environment has seen these causes since the last time.
func (w *world) canceledBy(t *testing.T, causes ...string) {
	t.Helper()
	settle() // under a step limit the reply does not wait for the environment
	w.mu.Lock()
	defer w.mu.Unlock()
	got := make([]string, len(w.canceled))
	for i, err := range w.canceled {
		got[i] = err.Error()
	}
	if fmt.Sprint(got) != fmt.Sprint(causes) {
		t.Errorf("the environment's ctx ended with %q, want %q", got, causes)
	}
	w.canceled = nil
}

type placeOfCalls struct {
	name       string
	opts       []envserver.Option
	noDeadline string // what an environment sees of a call without a deadline
}

// places are where calls run.
func places() []placeOfCalls {
	return []placeOfCalls{
		{"on the session's goroutine", nil, `"rate":-1`},
		{"on a thread", []envserver.Option{envserver.WithLockedThread()}, `"rate":-1`},
		{"on a shared thread", []envserver.Option{envserver.WithSharedThread()}, `"rate":-1`},
		{"under a step limit", []envserver.Option{envserver.WithStepTimeout(time.Hour)}, `"rate":3600`},
		{"on a thread, under a step limit", []envserver.Option{envserver.WithLockedThread(), envserver.WithStepTimeout(time.Hour)}, `"rate":3600`},
	}
}

// A cancel ends the ctx of its request within 50 ms; the request's own reply still comes,
// in its place, and the session stays usable.
func TestCancel(t *testing.T) {
	const cancelled = `"type":"error","data":{"code":"CANCELLED","message":"call was cancelled by its client"}}`
	for _, place := range places() {
		t.Run(place.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := inMemory(t, place.opts...)
				s := w.attach(w.create())

				s.send(stepNo(1, "sleep", 60_000))
				time.Sleep(time.Second)
				start := time.Now()
				want(t, s.ask(cancelOf(1)), `{"id":1,`+cancelled)
				took(t, start, 0)
				want(t, s.ask(stepNo(1, "sleep", 0)), `{"id":1,`+cancelled)
				w.canceledBy(t, "call was cancelled by its client")

				// At once after the request.
				start = time.Now()
				s.send(stepNo(2, "sleep", 60_000))
				want(t, s.ask(cancelOf(2)), `{"id":2,`+cancelled)
				took(t, start, 0)
				w.canceledBy(t, "call was cancelled by its client")

				// While the request waits for another: it is not begun.
				s.send(stepNo(3, "sleep", 1000))
				s.send(stepNo(4, "x", 0))
				s.send(stepNo(5, "x", 0))
				s.send(cancelOf(4))
				want(t, s.receive(), `{"id":3,`, `"did":"sleep"`)
				want(t, s.receive(), `{"id":4,`+cancelled)
				want(t, s.receive(), `{"id":5,`, `"n":4`)

				// Too late, too early, twice, of nobody.
				s.send(cancelOf(5))
				s.send(cancelOf(5))
				s.send(cancelOf(1000))
				want(t, s.ask(stepNo(6, "x", 0)), `{"id":6,`, `"n":5`)
				w.canceledBy(t)

				// Of a call that was not cancelled in the end.
				s.send(stepNo(7, "x", 0))
				sent := make(chan struct{})
				go func() { defer close(sent); s.send(cancelOf(7)) }() // nothing buffers it while the reply is written
				defer func() { <-sent }()
				if got := s.receive(); !strings.Contains(got, `"n":6`) && !strings.Contains(got, cancelled) {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// An environment that does not heed its ctx keeps its order: its next call begins after
// the cancelled one has returned, whose result counts.
func TestCancelOfACallThatDoesNotHeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		s := w.attach(w.create())
		start := time.Now()
		s.send(stepNo(1, "ignore", 5000))
		s.send(cancelOf(1))
		s.send(stepNo(2, "x", 0))
		want(t, s.receive(), `{"id":1,`, `"did":"ignore"`)
		took(t, start, 5*time.Second)
		want(t, s.receive(), `{"id":2,`, `"n":2`)
		w.noOverlaps(t)
	})
}

// With a step limit a cancelled call is answered at once, as one that exceeds the limit
// is, and its late result is nobody's.
func TestCancelUnderAStepLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithStepTimeout(10*time.Second))
		s := w.attach(w.create())
		start := time.Now()
		s.send(stepNo(1, "ignore", 5000))
		want(t, s.ask(cancelOf(1)), `{"id":1,`, "CANCELLED")
		took(t, start, 0)
		want(t, s.ask(stepNo(2, "x", 0)), `{"id":2,`, `"n":2`)
		took(t, start, 5*time.Second)
		want(t, s.ask(stepNo(3, "sleep", 60_000)), `{"id":3,`, "EXECUTION_ERROR", "step exceeded the limit of 10s")
		want(t, s.ask(stepNo(3, "sleep", 60_000)), `{"id":3,`, "EXECUTION_ERROR", "step exceeded the limit of 10s")
		w.noOverlaps(t)
	})
}

// noOverlaps fails when two calls met on an environment.
func (w *world) noOverlaps(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overlaps != 0 {
		t.Errorf("%d calls overlapped", w.overlaps)
	}
}
