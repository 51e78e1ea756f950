package openenvtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Scripted is the handler made by [Script].
type Scripted struct {
	t    testing.TB
	play func(*Peer)

	subprotocols []string

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	accepted int
	closed   bool
	peers    sync.WaitGroup
}

// Script returns a server whose side of every session is played by play, on a
// goroutine of its own; [Peer.Number] tells the sessions apart. GET /health answers
// that it is healthy. When play returns, the socket is closed with code 1000. A frame
// that play did not expect fails the test and ends that session.
func Script(t testing.TB, play func(p *Peer)) *Scripted {
	s := &Scripted{t: t, play: play}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Subprotocols lets the server choose one of these WebSocket subprotocols when the client
// offers it; otherwise it chooses none. It returns s, and is called before the first
// client comes.
func (s *Scripted) Subprotocols(names ...string) *Scripted {
	s.subprotocols = names
	return s
}

// Accepted is the number of sockets accepted so far.
func (s *Scripted) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Shutdown drops every socket and waits for the players.
func (s *Scripted) Shutdown(context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.peers.Wait()
	return nil
}

// ServeHTTP upgrades any path that ends in /ws.
func (s *Scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/health":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"healthy"}`))
	case strings.HasSuffix(r.URL.Path, "/ws"):
		s.accept(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *Scripted) accept(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return
	}
	s.accepted++
	p := &Peer{s: s, number: s.accepted, request: r}
	s.peers.Add(1)
	s.mu.Unlock()
	defer s.peers.Done()

	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: s.subprotocols})
	if err != nil {
		return // the client left during the handshake
	}
	ws.SetReadLimit(-1)
	p.ws = ws
	played := make(chan struct{})
	go func() { // of its own, so that a failed expectation can end it with Goexit
		defer close(played)
		s.play(p)
	}()
	<-played
	if s.ctx.Err() != nil {
		_ = ws.CloseNow()
		return
	}
	_ = ws.Close(websocket.StatusNormalClosure, "") // the client may have left already
}

// Peer is the server's side of one session. Its methods are called by the player
// only; those that need the client fail the test when it has left.
type Peer struct {
	s       *Scripted
	ws      *websocket.Conn
	number  int
	request *http.Request
}

// Frame is a message from the client.
type Frame struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
	Text string          `json:"-"`  // the message as it came
	ID   uint64          `json:"id"` // its number, where the subprotocol has one
	MS   int64           `json:"ms"` // the caller's time in milliseconds, likewise
}

// Number is 1 for the first socket that the server accepted, and so on.
func (p *Peer) Number() int { return p.number }

// Request is the upgrade request.
func (p *Peer) Request() *http.Request { return p.request }

// Next waits for the next frame. It reports false when the client has left.
func (p *Peer) Next() (Frame, bool) {
	_, text, err := p.ws.Read(p.s.ctx)
	if err != nil {
		return Frame{}, false
	}
	f := Frame{Text: string(text)}
	if err := json.Unmarshal(text, &f); err != nil {
		p.failf("client sent %q: %v", text, err)
	}
	return f, true
}

// Expect waits for a frame of that type.
func (p *Peer) Expect(typ string) Frame {
	f, ok := p.Next()
	switch {
	case !ok:
		p.failf("client left, want a %s frame", typ)
	case f.Type != typ:
		p.failf("client sent %s, want a %s frame", f.Text, typ)
	}
	return f
}

// Send sends a message as it is, well-formed or not.
func (p *Peer) Send(text string) { p.write(websocket.MessageText, []byte(text)) }

// Sendf is Send with a format.
func (p *Peer) Sendf(format string, args ...any) { p.Send(fmt.Sprintf(format, args...)) }

// SendBinary sends a binary message, which the protocol does not have.
func (p *Peer) SendBinary(b []byte) { p.write(websocket.MessageBinary, b) }

// Observation sends an observation frame without a reward; observation is JSON.
func (p *Peer) Observation(observation string) {
	p.Send(`{"type":"observation","data":{"observation":` + observation + `,"reward":null,"done":false}}`)
}

// State sends a state frame; state is JSON.
func (p *Peer) State(state string) { p.Send(`{"type":"state","data":` + state + `}`) }

// Error sends an error frame.
func (p *Peer) Error(code, message string) {
	p.Sendf(`{"type":"error","data":{"message":%q,"code":%q}}`, message, code)
}

// Oversize sends an observation frame of at least n bytes.
func (p *Peer) Oversize(n int) {
	p.Observation(`{"big":"` + strings.Repeat("x", n) + `"}`)
}

// Stall does nothing for d: it reads no frame and answers no ping.
func (p *Peer) Stall(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.s.ctx.Done():
		runtime.Goexit()
	}
}

// Silence reads what comes and answers nothing, until the client has left.
func (p *Peer) Silence() {
	for {
		if _, ok := p.Next(); !ok {
			return
		}
	}
}

// Deaf reads nothing and answers nothing until the server is shut down.
func (p *Peer) Deaf() {
	<-p.s.ctx.Done()
	runtime.Goexit()
}

// Close closes the socket with a code.
func (p *Peer) Close(code int, reason string) { _ = p.ws.Close(websocket.StatusCode(code), reason) }

// Abort drops the connection without a close frame.
func (p *Peer) Abort() { _ = p.ws.CloseNow() }

func (p *Peer) write(typ websocket.MessageType, b []byte) {
	if err := p.ws.Write(p.s.ctx, typ, b); err != nil {
		runtime.Goexit() // the client has left; what it makes of that is its test's matter
	}
}

func (p *Peer) failf(format string, args ...any) {
	if p.s.ctx.Err() == nil {
		p.s.t.Errorf("scripted peer, session %d: %s", p.number, fmt.Sprintf(format, args...))
	}
	runtime.Goexit()
}
