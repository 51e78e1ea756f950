package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// cutLimit is how long the two ends of a cut connection have to close theirs.
	cutLimit = time.Second

	chunkSize = 32 << 10
)

// link is one connection: two sockets and a pump for each direction.
type link struct {
	relay  *Relay
	number int
	client *net.TCPConn
	over   chan struct{} // closed by close

	mu        sync.Mutex
	server    *net.TCPConn // nil until dialled, and when there is none
	head      []byte       // what the client sent first
	swallowed [2]bool      // by direction: what is read goes nowhere
	refused   [2]bool      // by direction: its receiver is gone, as a write found
	ended     [2]bool      // by direction: its source has ended
	final     Kind         // the fault that ended the traffic; 0: none
	closed    bool
}

// run relays until both directions have ended. A lost one has no server: it is born in
// a black hole.
func (l *link) run(lost bool) {
	if lost {
		l.strikeNow(Blackhole)
	}
	server, err := l.dial()
	switch {
	case err != nil && l.struck():
		l.pump(ToServer, l.client, nil)
		return
	case err != nil:
		abort(l.client) // as a target that refuses would have it
		return
	}
	var reply sync.WaitGroup
	reply.Go(func() { l.pump(ToClient, server, l.client) })
	l.pump(ToServer, l.client, server)
	reply.Wait()
}

// dial connects to the target, unless the link is struck before.
func (l *link) dial() (*net.TCPConn, error) {
	if l.struck() {
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(l.relay.ctx, dialLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.relay.target)
	if err != nil {
		return nil, err
	}
	server := conn.(*net.TCPConn) //nolint:forcetypeassert // network tcp gives no other
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
	switch { // what was struck during the dial
	case l.closed:
		_ = server.Close() // nothing was sent on it
	case l.final == Cut:
		cut(server)
	case l.final == Abort:
		abort(server)
	}
	return server, nil
}

// pump carries one direction from src to dst until src ends.
func (l *link) pump(d Direction, src, dst *net.TCPConn) {
	p := &pump{link: l, direction: d, dst: dst}
	buf := make([]byte, chunkSize)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			p.chunk(buf[:n])
		}
		if err != nil {
			l.sourceEnded(d, dst, err)
			return
		}
	}
}

// sourceEnded passes the end of a direction on in the way it came.
func (l *link) sourceEnded(d Direction, dst *net.TCPConn, cause error) {
	l.mu.Lock()
	l.ended[d] = true
	silent := l.swallowed[d]
	// A write may have found this end gone, and taken the error that told of its
	// reset: the read of its last bytes then ends as if in order.
	reset := !errors.Is(cause, io.EOF) || l.refused[1-d]
	l.mu.Unlock()
	switch {
	case silent:
	case reset:
		l.reset()
	default:
		_ = dst.CloseWrite() // an error says that dst is gone, which its own pump sees
	}
}

// strike does a fault of the plan, which has reached its byte. It reports false when the
// direction is over. It does not wait for a delay, which is the pump's.
func (l *link) strike(f Fault) bool {
	return l.do(f, func() bool { return l.final == 0 && !l.swallowed[f.Direction] })
}

// strikeNow does a fault that a test calls for. It reports false when the connection is
// over; a black one can still be cut and reset.
func (l *link) strikeNow(k Kind) bool {
	return l.do(Fault{Kind: k}, func() bool { return l.final == 0 || l.final == Blackhole && k != Blackhole })
}

func (l *link) do(f Fault, possible func() bool) bool {
	l.mu.Lock()
	if l.closed || !possible() {
		l.mu.Unlock()
		return false
	}
	switch f.Kind {
	case HalfClose:
		l.swallowed[f.Direction] = true
	case Delay:
	default:
		l.final = f.Kind
		l.swallowed = [2]bool{true, true}
	}
	client, server := l.client, l.server
	l.mu.Unlock()

	// In the list first: who sees the effect finds its cause.
	l.relay.log.add(Strike{Conn: l.number, Fault: f})
	switch f.Kind {
	case Cut:
		cut(client)
		cut(server)
	case Abort, Truncate:
		l.reset()
	case HalfClose:
		if f.Direction == ToServer {
			_ = server.CloseWrite() // an error says that it is gone, which its pump sees
		} else {
			_ = client.CloseWrite() // the same
		}
	case Delay, Blackhole:
	}
	return true
}

func (l *link) reset() {
	l.mu.Lock()
	server := l.server
	l.mu.Unlock()
	abort(l.client)
	abort(server)
}

// close ends both sockets and with them the pumps. It can be called again.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.over)
	_ = l.client.Close() // an error says that it was closed before
	if l.server != nil {
		_ = l.server.Close() // the same
	}
}

// conn tells a plan about the link; chunk is one that came first in a direction.
func (l *link) conn(d Direction, chunk []byte) Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d == ToServer && l.head == nil {
		l.head = append([]byte{}, chunk...)
	}
	return Conn{Number: l.number, Head: l.head}
}

func (l *link) swallows(d Direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.swallowed[d]
}

func (l *link) struck() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.final != 0
}

// refuse notes that the receiver of d is gone. Its last words are still to be read;
// when they have been, the sender learns of it as on a direct connection.
func (l *link) refuse(d Direction) {
	l.mu.Lock()
	l.swallowed[d], l.refused[d] = true, true
	heard := l.ended[1-d] && l.final == 0
	l.mu.Unlock()
	if heard {
		l.reset()
	}
}

// cut ends a socket in order. A close would reset it if bytes of the other end are
// unread, so the pump goes on reading, for a bounded time.
func cut(c *net.TCPConn) {
	if c == nil {
		return
	}
	_ = c.CloseWrite()                          // an error says that it is gone
	_ = c.SetDeadline(time.Now().Add(cutLimit)) // the same
}

// abort closes a socket with a reset.
func abort(c *net.TCPConn) {
	if c == nil {
		return
	}
	_ = c.SetLinger(0) // an error says that it was closed before
	_ = c.Close()      // the same
}
