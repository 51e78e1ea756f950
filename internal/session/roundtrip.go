package session

import (
	"bytes"
	"context"
	"errors"
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
		if err == nil || sent || attempt > 0 {
			return err
		}
		// Nothing was written: a connection that had died unnoticed is replaced, once,
		// as long as acquire finds no episode lost with it.
		var died *ConnError
		if !errors.As(err, &died) {
			return err
		}
	}
}

// exchange writes the request on c and waits for its reply. It reports whether
// anything may have been written.
func (s *Session) exchange(ctx context.Context, c *conn, t *Turn, x *Exchange) (sent bool, err error) {
	select {
	case c.writing <- struct{}{}:
	case <-c.ended:
		return false, s.endError(c, false)
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		<-c.writing
		return false, context.Cause(ctx)
	}
	w := &waiter{op: x.Op, reply: make(chan outcome, 1)}
	s.mu.Lock()
	if c.cause != nil {
		err := s.failure(c, false)
		s.mu.Unlock()
		<-c.writing
		return false, err
	}
	if s.lost != nil && x.Op.needsEpisode() {
		err := &LostError{Cause: s.lost.Cause}
		s.mu.Unlock()
		<-c.writing
		return false, err
	}
	c.push(w)
	s.mu.Unlock()

	x.Sent = time.Now()
	err = c.ws.Write(ctx, x.Request)
	<-c.writing
	if err != nil {
		return true, s.writeFailed(ctx, c, w, x, err)
	}
	if t != nil {
		s.mu.Lock()
		t.written()
		s.mu.Unlock()
	}
	select {
	case o := <-w.reply:
		return true, x.take(o)
	case <-ctx.Done():
		return true, s.abandon(ctx, c, w, x)
	}
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
func (s *Session) abandon(ctx context.Context, c *conn, w *waiter, x *Exchange) error {
	s.mu.Lock()
	if c.leave(w) {
		s.mu.Unlock()
		return x.take(<-w.reply)
	}
	if x.Op.mutates() && !s.cfg.KeepOnCancel {
		c.end(&abandonError{op: x.Op, why: context.Cause(ctx).Error()})
	}
	s.mu.Unlock()
	return context.Cause(ctx)
}

// writeFailed decides what a failed write means. A message may be half out, so the
// connection is done with; but the peer may have said why before it closed, and
// that frame is still to be read.
func (s *Session) writeFailed(ctx context.Context, c *conn, w *waiter, x *Exchange, writeErr error) error {
	if ctx.Err() == nil {
		grace := time.NewTimer(s.cfg.CloseTimeout)
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
	if c.leave(w) {
		return x.take(<-w.reply)
	}
	if ctx.Err() != nil {
		c.end(&abandonError{op: x.Op, why: context.Cause(ctx).Error()})
		return context.Cause(ctx)
	}
	c.end(writeErr)
	return s.failure(c, true)
}

func (s *Session) endError(c *conn, sent bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure(c, sent)
}

// probe sends a state frame whose reply nobody decodes.
func (s *Session) probe(ctx context.Context, c *conn) error {
	x := &Exchange{Op: OpProbe, Request: wire.StateRequest}
	_, err := s.exchange(ctx, c, nil, x)
	wire.PutBuffer(x.Reply)
	return err
}
