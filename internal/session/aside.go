package session

import (
	"context"
	"errors"

	"github.com/openenv-go/openenv/internal/wire"
)

// Aside makes a request of the session that does not go over its socket, inside a turn
// that has come. The session is made if there is none, and its socket attached, so that
// the server holds the session. do makes the exchange for the session of that id. The
// session is lost when the server answers that it does not know it, and when its server is
// not there any more and another one answers.
func (s *Session) Aside(ctx context.Context, op Op, do func(ctx context.Context, id string) error) error {
	c, err := s.acquire(ctx, op)
	if err != nil {
		return err
	}
	// A server that refuses the socket does not know the session, and the next answer
	// over HTTP may come from another one, which does: what it would do is not to be
	// lost with a session that is given up here.
	if err := s.admit(ctx, c); err != nil {
		return err
	}
	if op.mutates() {
		s.soil(c)
	}
	err = do(ctx, c.id) // the server may say at this moment, on c, that it has no such session
	// Another server answers where there are several, or where the session's own was
	// started anew. Then the socket has nobody at its other end.
	if !IsUnknown(err) && (!errors.Is(err, ErrOtherServer) || s.answers(ctx, c) || ctx.Err() != nil) {
		return err
	}
	s.forgotten(c)
	return &LostError{Cause: ErrUnknownSession, Sent: true}
}

// answers reports whether the session's server is at the other end of c.
func (s *Session) answers(ctx context.Context, c *conn) bool {
	x := &Exchange{Op: OpProbe, Request: wire.StateRequest}
	_, err := s.exchange(ctx, c, nil, x)
	wire.PutBuffer(x.Reply)
	return err == nil
}

// soil notes that something may be done in the session that c is attached to, whatever
// becomes of c: a server that refuses it does not undo that.
func (s *Session) soil(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.dirty, c.wasDirty = true, true
	switch {
	case s.conn != nil:
		s.conn.dirty, s.conn.wasDirty = true, true // attached to the same session meanwhile
	case c.kept:
		s.kept = true
	}
}

// forgotten ends the session that c was attached to: the server does not know it. The
// caller is told.
func (s *Session) forgotten(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conn == c:
		c.end(ErrUnknownSession)
	case s.conn == nil && s.lost == nil && s.attached == c.id:
		s.cfg.Origin.Lost(ErrUnknownSession)
		s.kept = false
		if c.dirty {
			s.lose(ErrUnknownSession)
		}
	}
	s.told = true
}

// Numbered reports whether the session's requests carry numbers, so that each is applied
// once whatever becomes of its socket. The session is made if there is none.
func (s *Session) Numbered(ctx context.Context, op Op) (bool, error) {
	if s.cfg.Resume == nil {
		return false, nil
	}
	c, err := s.acquire(ctx, op)
	return c != nil && c.numbered, err
}
