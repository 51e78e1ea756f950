package session

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
)

// maxScratch is the largest buffer for numbered requests that a connection keeps.
const maxScratch = 64 << 10

// send writes w's request, with its number where the server wants one. The request is
// given apart: w may have been taken off c meanwhile, with a copy of its own. The caller
// holds c.writing.
func (c *conn) send(ctx context.Context, w *waiter, request []byte) error {
	if !c.numbered {
		return c.ws.Write(ctx, request)
	}
	ms := int64(wire.NoTime)
	if !w.deadline.IsZero() {
		// Rounded up: the server's clock must not be the quicker one, so that a caller
		// learns of the end of its ctx from its ctx.
		ms = max(int64((time.Until(w.deadline)+time.Millisecond-1)/time.Millisecond), 1)
	}
	frame := append(wire.AppendNumber(c.scratch[:0], w.id, ms), request[1:]...)
	if cap(frame) <= maxScratch {
		c.scratch = frame[:0]
	}
	return c.ws.Write(ctx, frame)
}

// number gives w its number; the caller holds mu.
func (c *conn) number(ctx context.Context, w *waiter) {
	if !c.numbered || w.id != 0 {
		return
	}
	c.s.numbers++
	w.id = c.s.numbers
	w.deadline, _ = ctx.Deadline()
}

// unnumber takes the number off a reply and checks that it is the one that is due. A
// frame by which the server gives up the session has none. The caller holds mu.
func (c *conn) unnumber(buf *bytes.Buffer) error {
	plain, id, _, err := wire.ParseNumbered(buf.Bytes())
	if err != nil {
		if typ, plainErr := wire.ReplyType(buf.Bytes()); plainErr == nil && refusal(typ, buf) != nil {
			return nil //nolint:nilerr // a refusal is no reply, and has no number
		}
		return err
	}
	buf.Next(buf.Len() - len(plain))
	switch {
	case len(c.fifo) == 0:
		return fmt.Errorf("reply to request %d, and none is open", id)
	case c.fifo[0].id != id:
		return fmt.Errorf("reply to request %d where that to %d is due", id, c.fifo[0].id)
	}
	return nil
}

// cancelRemotely tells the server that nobody waits for request id any more, so that the
// environment's work ends and the session goes on. The caller holds mu.
func (c *conn) cancelRemotely(id uint64) {
	s := c.s
	if c.cause != nil {
		return
	}
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.Base(), max(s.cfg.CloseTimeout, time.Second))
		defer cancel()
		select {
		case c.writing <- struct{}{}:
			defer func() { <-c.writing }()
		case <-c.ended:
			return
		case <-ctx.Done():
			return
		}
		frame := append(wire.AppendNumber(nil, id, wire.NoTime), wire.CancelRequest[1:]...)
		if err := c.ws.Write(ctx, frame); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			c.end(err)
		}
	})
}

// replaceHead puts in place of the oldest waiter one that nobody waits for: its reply is
// still to come. The caller holds mu.
func (c *conn) replaceHead() *waiter {
	w := c.fifo[0]
	c.fifo[0] = &waiter{op: w.op, id: w.id, unwanted: true, ghost: true, flying: w.flying, size: w.size}
	w.flying = false
	return w
}
