package session

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
)

// conn is one socket of a session with the requests that wait on it. Its fields
// are guarded by the session's mu unless they say otherwise.
type conn struct {
	s  *Session
	ws *wsock.Conn
	id string // of the session made over HTTP that it is attached to, or ""

	spare   atomic.Pointer[waiter]
	writing chan struct{} // lock held from a request's place in fifo to the end of its write
	fifo    []*waiter
	clock   *time.Timer // the message timeout of fifo's head
	ticking bool        // clock is running
	since   time.Time   // when the head became the oldest unanswered request

	numbered bool          // requests and replies carry numbers (wire.SessionV1)
	scratch  []byte        // for numbered requests; guarded by writing
	before   *State        // where the episode is, before the next request
	marked   chan struct{} // closed once before is known again; nil: it is, or never will be

	opened time.Time
	useful bool  // a request of a caller was answered here
	trial  trial // on which this socket was found

	dirty    bool // something may have been done in the server session
	wasDirty bool // dirty without what was written here: the session was kept, or used over HTTP
	hadReset bool // everReset of the session when this connection was made
	kept     bool // the server session outlives this socket
	probing  bool
	admitted chan struct{} // closed by the first reply that is not a refusal
	ended    chan struct{} // closed once cause is set
	cause    error
	reader   chan struct{} // closed when the reader goroutine has returned
	gone     chan struct{} // closed when the socket is closed, too
}

func newConn(s *Session, ws *wsock.Conn) *conn {
	c := &conn{
		s:        s,
		ws:       ws,
		writing:  make(chan struct{}, 1),
		admitted: make(chan struct{}),
		ended:    make(chan struct{}),
		reader:   make(chan struct{}),
		opened:   time.Now(),
		gone:     make(chan struct{}),
		numbered: ws.Subprotocol() == wire.SessionV1,
	}
	return c
}

// read is the connection's only reader, for its whole life: pings are answered
// and refusals noticed while no call is in progress.
func (c *conn) read() {
	defer close(c.reader)
	for {
		buf, binary, err := c.ws.Read(wire.GetBuffer)
		if err != nil {
			c.s.mu.Lock()
			c.end(c.blame(err))
			c.s.mu.Unlock()
			return
		}
		c.s.mu.Lock()
		c.deliver(buf, binary)
		c.s.mu.Unlock()
	}
}

// blame turns the end of a connection whose write was cut off into its cause: the
// caller who left, whose request is the newest one. The caller holds mu.
func (c *conn) blame(err error) error {
	var cut *wsock.CancelledError
	if !errors.As(err, &cut) || len(c.fifo) == 0 {
		return err
	}
	return &abandonError{op: c.fifo[len(c.fifo)-1].op, why: cut.Cause.Error()}
}

// deliver hands a message to the oldest waiter; the caller holds mu.
func (c *conn) deliver(buf *bytes.Buffer, binary bool) {
	if c.cause != nil {
		wire.PutBuffer(buf)
		return
	}
	var numberErr error
	if c.numbered && !binary {
		numberErr = c.unnumber(buf)
	}
	typ, err := wire.ReplyType(buf.Bytes())
	if numberErr != nil {
		typ, err = "", numberErr
	}
	if binary {
		typ, err = "", errors.New("binary message, the protocol has text only")
	}
	if refused := refusal(typ, buf); refused != nil {
		wire.PutBuffer(buf)
		c.refuse(refused)
		return
	}
	if len(c.fifo) == 0 {
		if err == nil {
			err = fmt.Errorf("%s frame that answers no request", typ)
		}
		c.end(frameError(err, buf))
		wire.PutBuffer(buf)
		return
	}
	w := c.pop()
	if err == nil && typ != wire.TypeError && typ != w.op.replyType() {
		err = fmt.Errorf("received %s frame in reply to %s", typ, w.op)
	}
	if err != nil {
		// Which reply belongs to which request is not known any more.
		fe := frameError(err, buf)
		wire.PutBuffer(buf)
		c.s.settle(w, outcome{err: fe})
		c.end(fe)
		return
	}
	if !isClosed(c.admitted) {
		close(c.admitted)
	}
	c.useful = c.useful || w.op != OpProbe
	if w.op == OpReset && typ == wire.TypeObservation {
		c.s.lost = nil
	}
	c.s.settle(w, outcome{buf: buf, typ: typ, received: time.Now()})
}

// refuse ends a connection whose server gives no session for it, or gives the
// session up; the caller holds mu. A request in whose place the refusal came waits for
// the next socket, if there is to be one.
func (c *conn) refuse(refused *RefusedError) {
	admitted := isClosed(c.admitted)
	if !admitted {
		// No session was made here: whatever was written did not happen.
		c.dirty = c.wasDirty
		c.s.everReset = c.hadReset
	}
	var head *waiter
	if len(c.fifo) > 0 {
		head = c.pop()
	}
	c.end(refused)
	switch {
	case head == nil:
	case c.s.survives(c) && head.op != OpProbe && !head.unwanted:
		c.s.stranded = slices.Insert(c.s.stranded, 0, head.unbound())
	case !admitted && c.dirty:
		c.s.settle(head, outcome{err: c.s.failure(c, head.op, true)}) // the session to attach to is gone
	default:
		c.s.settle(head, outcome{err: refused})
	}
}

// refusal returns the error of a frame by which the server gives up the session.
func refusal(typ string, buf *bytes.Buffer) *RefusedError {
	if typ != wire.TypeError {
		return nil
	}
	if frame, err := wire.DecodeError(buf.Bytes()); err == nil && wire.EndsSession(frame.Code) {
		return &RefusedError{Frame: frame}
	}
	return nil
}

func frameError(err error, buf *bytes.Buffer) *FrameError {
	return &FrameError{Err: err, Received: wire.Excerpt(buf.Bytes())}
}

func (o Op) replyType() string {
	switch o {
	case OpReset, OpStep:
		return wire.TypeObservation
	case OpTool, OpToolList:
		return wire.TypeMCP
	default:
		return wire.TypeState
	}
}

// startClock gives the oldest request its message timeout. One timer serves the
// connection for its whole life, and is not stopped between requests: it looks at the
// time when it is due.
func (c *conn) startClock() {
	limit := c.s.cfg.MessageTimeout
	if limit <= 0 {
		return
	}
	c.since = time.Now()
	if !c.ticking {
		c.arm(limit)
	}
}

// arm sets the clock; the caller holds mu.
func (c *conn) arm(d time.Duration) {
	c.ticking = true
	if c.clock == nil {
		c.clock = time.AfterFunc(d, c.expire)
		return
	}
	c.clock.Reset(d)
}

// expire ends the connection when its oldest request has waited too long. The timer may
// be that of an earlier one.
func (c *conn) expire() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.ticking = false
	if c.cause != nil || len(c.fifo) == 0 {
		return
	}
	limit := c.s.cfg.MessageTimeout
	if left := limit - time.Since(c.since); left > 0 {
		c.arm(left)
		return
	}
	err := fmt.Errorf("%w of %v", ErrMessageTimeout, limit)
	if c.numbered && !c.fifo[0].ghost {
		w := c.replaceHead()
		c.cancelRemotely(w.id)
		c.startClock()
		c.s.settle(w, outcome{err: err})
		return
	}
	w := c.pop()
	c.end(err)
	c.s.settle(w, outcome{err: err})
}

// end closes the connection for good with its cause, fails everybody who waits on
// it, and starts the close of the socket in the background; the caller holds mu.
func (c *conn) end(cause error) {
	if c.cause != nil {
		return
	}
	s := c.s
	c.cause = cause
	close(c.ended)
	if c.clock != nil {
		c.clock.Stop()
	}
	if s.conn == c {
		s.conn = nil
	}
	s.ended(c)
	busy := len(c.fifo) > 0
	if s.survives(c) {
		s.strand(c)
	} else {
		for _, w := range c.fifo {
			s.settle(w, outcome{err: s.failure(c, w.op, true)})
		}
	}
	c.fifo = nil
	s.drops[c] = struct{}{}
	s.cfg.Logger.Debug("session socket ended", "cause", cause, "dirty", c.dirty)
	s.spawnOwn(func() { c.shut(busy) })
}

// shut closes the socket, all in all within the close timeout, and waits for the
// reader. A server with nothing left to answer is told first, so that its session,
// and the slot that it fills, is gone when the socket is.
func (c *conn) shut(busy bool) {
	// Without a request that waits, who holds the lock is done with it in a moment, and
	// the goodbye takes its turn.
	midWrite := len(c.writing) > 0 && (busy || !deliberate(c.cause))
	switch limit := c.s.cfg.CloseTimeout; {
	case midWrite || limit <= 0 || c.peerGone():
		c.ws.Abort() // nothing can follow half a message, nobody answers a close
	default:
		abort := time.AfterFunc(limit, c.ws.Abort)
		if busy || !deliberate(c.cause) || c.sayGoodbye(limit/2) {
			_ = c.ws.Close(1000, "") // its outcome changes nothing any more
		} else {
			c.ws.Abort()
		}
		abort.Stop()
	}
	<-c.reader
	c.s.mu.Lock()
	delete(c.s.drops, c)
	c.s.mu.Unlock()
	close(c.gone)
}

// deliberate reports whether it was the user who ended the session.
func deliberate(cause error) bool {
	return errors.Is(cause, ErrDisconnected) || errors.Is(cause, ErrClosed)
}

// peerGone reports whether a close handshake has nobody to answer it.
func (c *conn) peerGone() bool {
	var (
		frame     *FrameError
		refused   *RefusedError
		abandoned *abandonError
	)
	switch {
	case deliberate(c.cause), errors.Is(c.cause, ErrMessageTimeout), errors.Is(c.cause, wsock.ErrTooBig):
		return false
	}
	return !errors.As(c.cause, &frame) && !errors.As(c.cause, &refused) && !errors.As(c.cause, &abandoned)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
