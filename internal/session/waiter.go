package session

import (
	"bytes"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
)

// waiter is a request on the wire.
type waiter struct {
	op       Op
	reply    chan outcome // capacity 1, receives exactly one outcome
	unwanted bool         // the caller left; the reply only keeps the order
	answered bool
	flying   bool // counted among the pipelined requests in flight
	size     int  // of the request, when flying

	on       *conn         // nil: it waits for a connection
	request  []byte        // the caller's, unless copied
	copied   bool          // because it has waited for another connection
	id       uint64        // on a numbered connection
	deadline time.Time     // of the caller; zero: none
	before   *State        // where the episode was
	ghost    bool          // its caller was told that it timed out
	note     func(outcome) // called in place of a caller, with mu held
}

type outcome struct {
	buf      *bytes.Buffer
	typ      string
	received time.Time
	err      error
}

// newWaiter returns a waiter for one request; reuse takes back one whose outcome was
// received, so that a lone caller allocates none.
func (c *conn) newWaiter(op Op) *waiter {
	if w := c.spare.Swap(nil); w != nil {
		*w = waiter{op: op, reply: w.reply}
		return w
	}
	return &waiter{op: op, reply: make(chan outcome, 1)}
}

func (c *conn) reuse(w *waiter) {
	w.request = nil
	c.spare.Store(w)
}

// unbound takes the waiter off its connection, to wait for another one. The caller of its
// request waits, and may not touch that before it has mu, which is held here.
func (w *waiter) unbound() *waiter {
	if !w.copied {
		w.copied, w.request = true, bytes.Clone(w.request)
	}
	w.on = nil
	return w
}

// settle gives the waiter its one outcome; the caller holds mu.
func (s *Session) settle(w *waiter, o outcome) {
	w.answered = true
	s.landed(w)
	if w.note != nil {
		w.note(o)
	}
	if w.unwanted {
		wire.PutBuffer(o.buf)
		return
	}
	w.reply <- o
}

// leave is called when w's caller does not wait any longer. It reports whether
// the reply had come before that; otherwise a late one is discarded.
func (w *waiter) leave() (answered bool) {
	if !w.answered {
		w.unwanted = true
	}
	return w.answered
}

// push takes a place among the waiters; the caller holds mu and writing.
func (c *conn) push(w *waiter) {
	c.fifo = append(c.fifo, w)
	w.on = c
	if w.op.mutates() {
		c.dirty = true
	}
	if w.op == OpReset {
		c.s.everReset = true
	}
	if len(c.fifo) == 1 {
		c.startClock()
	}
}

// pop removes the oldest waiter and starts the next one's clock.
func (c *conn) pop() *waiter {
	w := c.fifo[0]
	c.fifo[0] = nil
	if len(c.fifo) > 1 {
		c.fifo = c.fifo[1:]
		c.startClock()
		return w
	}
	c.fifo = c.fifo[:0] // keeps the room of a lone caller's next request
	return w
}
