package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
)

// Exchange is one request and what came back.
type Exchange struct {
	Op       Op
	Request  []byte // the whole frame; not used after RoundTrip returns
	Reply    *bytes.Buffer
	Type     string // the reply's frame type, error frames included
	Sent     time.Time
	Received time.Time
}

// reasonGrace is how long a failed write waits for the reason: a server that refuses
// says why before it closes, and that frame is read although nothing can be written.
const reasonGrace = time.Second

// RoundTrip makes one exchange inside a turn that has come. On success Reply is
// the caller's, to be given back with wire.PutBuffer. An error frame is a success
// here, unless the server ended the session with it.
func (s *Session) RoundTrip(ctx context.Context, t *Turn, x *Exchange) error {
	for attempt := 0; ; attempt++ {
		c, err := s.acquire(ctx, x.Op)
		if err != nil {
			return err
		}
		sent, err := s.exchange(ctx, c, t, x)
		if err == nil || sent || attempt > 0 && s.cfg.Resume == nil {
			return err
		}
		// Nothing was written: a connection that had died unnoticed is replaced, once,
		// as long as acquire finds no episode lost with it.
		if _, died := errors.AsType[*ConnError](err); !died {
			return err
		}
	}
}

// exchange writes the request on c and waits for its reply. It reports whether
// anything may have been written. t is nil for a request that takes no turn.
func (s *Session) exchange(ctx context.Context, c *conn, t *Turn, x *Exchange) (sent bool, err error) {
	if err := s.awaitMark(ctx, c, x.Op); err != nil {
		return false, err
	}
	select {
	case c.writing <- struct{}{}:
	case <-c.ended:
		return false, s.endError(c, x.Op, false)
	case <-ctx.Done():
		return false, left(ctx)
	}
	w := c.newWaiter(x.Op)
	w.request = x.Request
	if err := s.admission(ctx, c, w); err != nil {
		<-c.writing
		return false, err
	}
	x.Sent = time.Now()
	if err := s.write(ctx, c, w, t, x); err != nil {
		// Nobody else may write behind half a message: the lock is kept until the
		// connection has ended.
		err = s.writeFailed(ctx, c, w, x, err)
		if !errors.Is(err, errStranded) {
			<-c.writing
			return true, err
		}
	}
	<-c.writing
	select {
	case o := <-w.reply:
		c.reuse(w)
		return true, x.take(o)
	case <-ctx.Done():
		return true, s.abandon(ctx, w, x)
	}
}

// write puts the request on the wire. A ctx that ends in the middle of it ends the
// connection: half a message cannot be undone.
func (s *Session) write(ctx context.Context, c *conn, w *waiter, t *Turn, x *Exchange) error {
	if err := s.put(ctx, c, w, x.Request); err != nil {
		return err
	}
	if t != nil {
		s.mu.Lock()
		t.written(w)
		s.mu.Unlock()
	}
	return nil
}

// admission gives w its place among the waiters of c, or says why it gets none. The
// caller holds c.writing.
func (s *Session) admission(ctx context.Context, c *conn, w *waiter) error {
	if ctx.Err() != nil {
		return left(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.cause != nil:
		return s.failure(c, w.op, false)
	case s.refuses(w.op):
		return s.reportLoss()
	}
	c.number(ctx, w)
	c.push(w)
	if c.marks() && w.op.mutates() {
		w.before, c.before = c.before, nil
	}
	return nil
}

// put sends w's request on c, and behind it, where that is needed, the question where the
// episode is then. The caller holds c.writing.
func (s *Session) put(ctx context.Context, c *conn, w *waiter, request []byte) error {
	if err := c.send(ctx, w, request); err != nil || !c.marks() || !w.op.mutates() {
		return err
	}
	return s.mark(ctx, c)
}

// awaitMark waits until it is known where the episode is, before a request that may
// change that. Pipelined requests do not wait: what becomes of them is in doubt.
func (s *Session) awaitMark(ctx context.Context, c *conn, op Op) error {
	if !c.marks() || !op.mutates() || s.cfg.Pipelining > 1 {
		return nil
	}
	s.mu.Lock()
	marked := c.marked
	s.mu.Unlock()
	if marked == nil {
		return nil
	}
	select {
	case <-marked:
		return nil
	case <-c.ended:
		return s.endError(c, op, false)
	case <-ctx.Done():
		return left(ctx)
	}
}

// mark asks where the episode is after the request that was just written. The caller
// holds c.writing.
func (s *Session) mark(ctx context.Context, c *conn) error {
	w := c.newMark()
	s.mu.Lock()
	if c.cause != nil {
		s.mu.Unlock()
		return nil //nolint:nilerr // the end of c takes care of the request itself
	}
	if c.marked == nil {
		c.marked = make(chan struct{})
	}
	c.push(w)
	s.mu.Unlock()
	return c.send(ctx, w, wire.StateRequest)
}

func (x *Exchange) take(o outcome) error {
	if o.err != nil {
		return o.err
	}
	x.Reply, x.Type, x.Received = o.buf, o.typ, o.received
	return nil
}

// abandon is a caller leaving after its request was written. A reply that has
// already come is taken: the step it belongs to was applied.
func (s *Session) abandon(ctx context.Context, w *waiter, x *Exchange) error {
	s.mu.Lock()
	if w.leave() {
		s.mu.Unlock()
		return x.take(<-w.reply)
	}
	switch {
	case !x.Op.mutates() || s.cfg.KeepOnCancel:
	case w.on == nil:
		s.unstrand(w)
	case w.on.numbered:
		w.on.cancelRemotely(w.id)
	default:
		w.on.end(&abandonError{op: x.Op, why: left(ctx).Error()})
	}
	s.mu.Unlock()
	return left(ctx)
}

// writeFailed decides what a failed write means. A message may be half out, so the
// connection is done with; but the peer may have said why before it closed, and
// that frame is still to be read.
func (s *Session) writeFailed(ctx context.Context, c *conn, w *waiter, x *Exchange, writeErr error) error {
	if ctx.Err() == nil {
		grace := time.NewTimer(reasonGrace)
		defer grace.Stop()
		select {
		case o := <-w.reply:
			return x.take(o)
		case <-grace.C:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.answered:
		err := x.take(<-w.reply)
		if err != nil && ctx.Err() != nil {
			return left(ctx)
		}
		return err
	case ctx.Err() != nil && w.on == nil:
		s.unstrand(w)
		return left(ctx)
	case ctx.Err() != nil:
		w.unwanted = true
		w.on.end(&abandonError{op: x.Op, why: left(ctx).Error()})
		return left(ctx)
	}
	c.end(writeErr)
	if w.on != c {
		return errStranded
	}
	return x.take(<-w.reply)
}

// errStranded says that a request waits for another socket.
var errStranded = errors.New("request waits for another connection")

// unstrand takes out a request whose caller has left; the caller holds mu.
func (s *Session) unstrand(w *waiter) {
	if i := slices.Index(s.stranded, w); i >= 0 {
		s.stranded = slices.Delete(s.stranded, i, i+1)
		s.settle(w, outcome{})
	}
}

func (s *Session) endError(c *conn, op Op, sent bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure(c, op, sent)
}

// probe sends a state frame whose reply nobody decodes. What it finds out shows in
// the connection: it is admitted, or it ends.
func (s *Session) probe(ctx context.Context, c *conn) {
	_ = s.answers(ctx, c) // a failure ends c, with its cause
}

// left is the error of a caller whose ctx has ended. It matches the ctx's error and,
// where somebody gave one, its cause.
func left(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
