package relay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/relay"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience bounds what a test waits for; nothing waits that long unless it failed.
const patience = 20 * time.Second

// server accepts connections for a test, which plays their far ends itself.
type server struct {
	net.Listener
	t *testing.T
}

func listen(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &server{l, t}
}

func (s *server) start(plan relay.Plan) *relay.Relay {
	s.t.Helper()
	r, err := relay.New(s.t.Context(), s.Addr().String(), plan)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(r.Close)
	return r
}

// pair makes a connection through the relay and returns its two ends.
func (s *server) pair(r *relay.Relay) (client, far *end) {
	s.t.Helper()
	client = dial(s.t, r)
	c, err := s.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	return client, newEnd(s.t, c)
}

// end is one end of a connection, whose calls fail the test rather than wait for ever.
type end struct {
	*net.TCPConn
	t *testing.T
}

func newEnd(t *testing.T, c net.Conn) *end {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &end{c.(*net.TCPConn), t}
}

func dial(t *testing.T, r *relay.Relay) *end {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return newEnd(t, c)
}

func (e *end) send(text string) {
	e.t.Helper()
	if _, err := io.WriteString(e.TCPConn, text); err != nil {
		e.t.Errorf("send %q: %v", text, err)
	}
}

func (e *end) expect(want string) {
	e.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(e.TCPConn, got); err != nil || string(got) != want {
		e.t.Errorf("received %q, %v, want %q", got[:n], err, want)
	}
}

func (e *end) endStream() {
	e.t.Helper()
	if err := e.CloseWrite(); err != nil {
		e.t.Errorf("end the stream: %v", err)
	}
}

func (e *end) reset() {
	e.t.Helper()
	if err := errors.Join(e.SetLinger(0), e.Close()); err != nil {
		e.t.Errorf("reset: %v", err)
	}
}

// rest reads to the end and returns what came and how it ended: nil is in order.
func (e *end) rest() (string, error) {
	got, err := io.ReadAll(e.TCPConn)
	return string(got), err
}

func (e *end) expectEnd(want string) {
	e.t.Helper()
	if got, err := e.rest(); err != nil || got != want {
		e.t.Errorf("received %q, %v, want %q and an end in order", got, err, want)
	}
}

func (e *end) expectReset(want string) {
	e.t.Helper()
	if got, err := e.rest(); !errors.Is(err, syscall.ECONNRESET) || got != want {
		e.t.Errorf("received %q, %v, want %q and a reset", got, err, want)
	}
}

// expectRefused asserts that a new connection is reset: while it is dialled or after.
func expectRefused(t *testing.T, r *relay.Relay) {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err == nil {
		newEnd(t, c).expectReset("")
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("dial: %v, want a reset", err)
	}
}

// expectSilence asserts that nothing comes, not even an end.
func (e *end) expectSilence() {
	e.t.Helper()
	if err := e.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		e.t.Fatal(err)
	}
	n, err := e.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		e.t.Errorf("read %d bytes, %v, want silence", n, err)
	}
	if err := e.SetReadDeadline(time.Now().Add(patience)); err != nil {
		e.t.Fatal(err)
	}
}

// What passes without a fault is what was sent: all bytes of both directions at the
// same time, in writes of any size.
func TestStreamIsUnharmed(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan relay.Plan
	}{
		{"no plan", nil},
		{"no fault", relay.None{}},
		{"delays", relay.Random{Seed: 1, Kinds: []relay.Kind{relay.Delay}, Min: 1, Max: 200_000, For: time.Millisecond}},
		{"faults beyond the end", relay.Every{Bytes: 1 << 40, Kinds: []relay.Kind{relay.Cut}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			s := listen(t)
			client, far := s.pair(s.start(tt.plan))
			var all sync.WaitGroup
			for i, e := range []*end{client, far} {
				sent := make([]byte, 3<<20)
				draw := rand.NewChaCha8([32]byte{byte(i)})
				if _, err := draw.Read(sent); err != nil {
					t.Fatal(err)
				}
				all.Go(func() { sendInPieces(t, e, sent) })
				all.Go(func() {
					other := []*end{far, client}[i]
					if got, err := other.rest(); err != nil || sha256.Sum256([]byte(got)) != sha256.Sum256(sent) {
						t.Errorf("%d bytes arrived, %v, want the %d sent", len(got), err, len(sent))
					}
				})
			}
			all.Wait()
		})
	}
}

func sendInPieces(t *testing.T, e *end, b []byte) {
	draw := rand.New(rand.NewPCG(1, uint64(len(b))))
	for len(b) > 0 {
		n := min(1+draw.IntN(100_000), len(b))
		if _, err := e.Write(b[:n]); err != nil {
			t.Errorf("send: %v", err)
			return
		}
		b = b[n:]
	}
	e.endStream()
}

// A connection ends as it would without the relay.
func TestEndingsPass(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(client, far *end)
	}{
		{"the client closes", func(client, far *end) {
			client.send("last words")
			client.Close()
			far.expectEnd("last words")
		}},
		{"the server closes", func(client, far *end) {
			far.send("last words")
			far.Close()
			client.expectEnd("last words")
		}},
		{"a half close leaves the other half", func(client, far *end) {
			client.send("request")
			client.endStream()
			far.expectEnd("request")
			far.send("reply")
			far.Close()
			client.expectEnd("reply")
		}},
		{"the client resets", func(client, far *end) {
			client.reset()
			far.expectReset("")
		}},
		{"the server resets", func(client, far *end) {
			far.reset()
			client.expectReset("")
		}},
		{"a server that is gone resets who still writes", func(client, far *end) {
			far.Close()
			client.expectEnd("")
			for deadline := time.Now().Add(patience); ; {
				if _, err := client.Write([]byte("anybody?")); err != nil {
					break
				}
				if time.Now().After(deadline) {
					t.Error("writes to nobody go on")
					break
				}
				time.Sleep(time.Millisecond)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			s := listen(t)
			tt.run(s.pair(s.start(nil)))
		})
	}
}

func TestTargetRefuses(t *testing.T) {
	leak.Check(t)
	s := listen(t)
	r := s.start(nil)
	s.Close()
	expectRefused(t, r)
	if n := r.Count(); n != 0 {
		t.Errorf("%d faults, want none: nothing was planned", n)
	}
}

// The client sends "request", the server answers "answer"; each fault is placed at the
// byte 3 of one of them.
func TestPlannedFaults(t *testing.T) {
	at := func(k relay.Kind, d relay.Direction, p relay.Place) relay.Fault {
		return relay.Fault{Kind: k, Direction: d, Offset: 3, Place: p, For: 80 * time.Millisecond}
	}
	request := func(client, _ *end) { client.send("request") }
	answered := func(client, far *end) {
		client.send("request")
		far.expect("request")
		far.send("answer")
	}
	for _, tt := range []struct {
		name  string
		fault relay.Fault
		talk  func(client, far *end)
		check func(client, far *end)
	}{
		{"cut before a request", at(relay.Cut, relay.ToServer, relay.Before), request, func(client, far *end) {
			far.expectEnd("")
			client.expectEnd("")
		}},
		{"cut in mid-request", at(relay.Cut, relay.ToServer, relay.Within), request, func(client, far *end) {
			far.expectEnd("req")
			client.expectEnd("")
		}},
		{"cut after a request", at(relay.Cut, relay.ToServer, relay.After), request, func(client, far *end) {
			far.expectEnd("request")
			client.expectEnd("")
		}},
		{"cut in mid-reply", at(relay.Cut, relay.ToClient, relay.Within), answered, func(client, far *end) {
			client.expectEnd("ans")
			far.expectEnd("")
		}},
		{"abort before a request", at(relay.Abort, relay.ToServer, relay.Before), request, func(client, far *end) {
			far.expectReset("")
			client.expectReset("")
		}},
		{"abort after a request", at(relay.Abort, relay.ToServer, relay.After), request, func(client, far *end) {
			far.expectReset("request")
			client.expectReset("")
		}},
		{"abort before a reply", at(relay.Abort, relay.ToClient, relay.Before), answered, func(client, far *end) {
			client.expectReset("")
			far.expectReset("")
		}},
		{"truncate a request", at(relay.Truncate, relay.ToServer, relay.Before), request, func(client, far *end) {
			far.expectReset("req")
			client.expectReset("")
		}},
		{"truncate a reply", at(relay.Truncate, relay.ToClient, relay.After), answered, func(client, far *end) {
			client.expectReset("ans")
			far.expectReset("")
		}},
		{"half-close the requests", at(relay.HalfClose, relay.ToServer, relay.Within), request, func(client, far *end) {
			far.expectEnd("req")
			client.send("swallowed")
			far.send("answer")
			client.expect("answer")
			client.expectSilence()
		}},
		{"half-close the replies", at(relay.HalfClose, relay.ToClient, relay.Within), answered, func(client, far *end) {
			client.expectEnd("ans")
			far.send("swallowed")
			client.send("more")
			far.expect("more")
			far.expectSilence()
		}},
		{"black hole", at(relay.Blackhole, relay.ToServer, relay.Within), request, func(client, far *end) {
			far.expect("req")
			far.send("answer")
			client.expectSilence()
			far.expectSilence()
			client.Close()
			far.expectSilence()
		}},
		{"delay in mid-reply", at(relay.Delay, relay.ToClient, relay.Within), answered, func(client, far *end) {
			client.expect("ans")
			client.expectSilence()
			client.expect("wer")
			far.send("more")
			client.expect("more")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			s := listen(t)
			r := s.start(relay.Script{{tt.fault}})
			client, far := s.pair(r)
			tt.talk(client, far)
			tt.check(client, far)
			if got := r.Strikes(); len(got) != 1 || got[0] != (relay.Strike{Conn: 0, Fault: tt.fault}) {
				t.Errorf("strikes %+v, want the one planned: %+v", got, tt.fault)
			}
			if got := r.Count(tt.fault.Kind); got != 1 {
				t.Errorf("%d times %v, want 1", got, tt.fault.Kind)
			}

			client, far = s.pair(r) // the next connection is not in the script
			client.send("request")
			far.expect("request")
		})
	}
}

// Several faults of one chunk are done in their order, each at its byte.
func TestFaultsOfOneChunk(t *testing.T) {
	leak.Check(t)
	s := listen(t)
	r := s.start(relay.Script{{
		{Kind: relay.Truncate, Offset: 5},
		{Kind: relay.Delay, Offset: 2, Place: relay.Within, For: 80 * time.Millisecond},
	}})
	client, far := s.pair(r)
	client.send("request")
	far.expect("re")
	far.expectSilence()
	far.expectReset("que")
	if got := r.Count(); got != 2 {
		t.Errorf("%d faults, want 2", got)
	}
}

func TestByHand(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, s *server, r *relay.Relay, client, far *end)
	}{
		{"cut", func(t *testing.T, _ *server, r *relay.Relay, client, far *end) {
			if n := r.Cut(); n != 1 {
				t.Errorf("cut %d connections, want 1", n)
			}
			client.expectEnd("")
			far.expectEnd("")
		}},
		{"cut while the ends talk", func(_ *testing.T, _ *server, r *relay.Relay, client, far *end) {
			client.send("swallowed or not")
			r.Cut()
			client.send("swallowed")
			client.expectEnd("")
			if _, err := far.rest(); err != nil {
				far.t.Errorf("the cut came as %v, want an end in order", err)
			}
		}},
		{"abort", func(t *testing.T, _ *server, r *relay.Relay, client, far *end) {
			if n := r.Abort(); n != 1 {
				t.Errorf("reset %d connections, want 1", n)
			}
			client.expectReset("")
			far.expectReset("")
		}},
		{"black hole, and healed for new connections", func(t *testing.T, s *server, r *relay.Relay, client, far *end) {
			if n := r.Blackhole(); n != 1 {
				t.Errorf("%d connections turned black, want 1", n)
			}
			lost := dial(t, r)
			lost.send("request")
			client.send("request")
			lost.expectSilence()
			far.expectSilence()
			r.Heal()
			client2, far2 := s.pair(r)
			client2.send("request")
			far2.expect("request")
			client.send("request")
			far.expectSilence()
			if n := r.Cut(); n != 3 {
				t.Errorf("cut %d connections, want 3: black ones can be cut", n)
			}
			far.expectEnd("")
			lost.expectEnd("")
			if n := r.Count(relay.Blackhole); n != 2 {
				t.Errorf("%d black holes, want 2", n)
			}
		}},
		{"refuse, and heal", func(t *testing.T, s *server, r *relay.Relay, client, far *end) {
			r.Refuse()
			expectRefused(t, r)
			client.send("request")
			far.expect("request")
			r.Heal()
			client, far = s.pair(r)
			client.send("request")
			far.expect("request")
		}},
		{"close", func(_ *testing.T, _ *server, r *relay.Relay, client, far *end) {
			r.Close()
			r.Close()
			client.expectEnd("")
			far.expectEnd("")
			if _, err := net.Dial("tcp", r.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
				client.t.Errorf("dial after close: %v, want a refusal", err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			s := listen(t)
			r := s.start(nil)
			client, far := s.pair(r)
			tt.run(t, s, r, client, far)
		})
	}
}

func TestContextEndsRelay(t *testing.T) {
	leak.Check(t)
	s := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := relay.New(ctx, s.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	client, far := s.pair(r)
	cancel()
	client.expectEnd("")
	far.expectEnd("")
}

func TestNewRefusesTarget(t *testing.T) {
	if _, err := relay.New(t.Context(), "http://localhost", nil); err == nil || !strings.Contains(err.Error(), "http://localhost") {
		t.Errorf("error %v, want one that names the target", err)
	}
}

// HTTP and WebSocket on one port: a plan for sockets leaves the others alone.
func TestSockets(t *testing.T) {
	leak.Check(t)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			io.WriteString(w, "hello") //nolint:errcheck // the client reports it
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	}))
	defer far.Close()
	r, err := relay.New(t.Context(), far.Listener.Addr().String(), relay.Sockets{Plan: relay.Every{Bytes: 4000, Kinds: []relay.Kind{relay.Cut}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	web := &http.Client{Transport: transport}
	get := func() {
		t.Helper()
		res, err := web.Get("http://" + r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	for range 100 { // more than 4000 bytes
		get()
	}
	c, _, err := websocket.Dial(t.Context(), "ws://"+r.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	echoed := 0
	for ; ; echoed++ {
		if c.Write(t.Context(), websocket.MessageText, bytes.Repeat([]byte("x"), 100)) != nil {
			break
		}
		if _, _, err := c.Read(t.Context()); err != nil {
			break
		}
	}
	if echoed < 20 || echoed > 40 {
		t.Errorf("%d messages of 100 bytes passed before the cut, want 4000 bytes' worth", echoed)
	}
	get()
	if got := r.Count(); got != 1 {
		t.Errorf("%d faults, want the socket's alone", got)
	}
}
