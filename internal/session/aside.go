package session

import "context"

// Aside makes a request of the session that does not go over its socket, inside a turn
// that has come. The session is made if there is none, and its socket attached, so that
// the server holds the session. do makes the exchange; when the server answers it that
// it does not know the session, the session is lost.
func (s *Session) Aside(ctx context.Context, op Op, do func(context.Context) error) error {
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
	if err := do(ctx); !IsUnknown(err) {
		return err
	}
	s.forgotten(c)
	return &LostError{Cause: ErrUnknownSession, Sent: true}
}

// soil notes that something may be done in the session that c is attached to.
func (s *Session) soil(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.dirty = true
	switch {
	case s.conn != nil:
		s.conn.dirty = true // attached to the same session meanwhile
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
	case s.conn == nil && c.dirty && s.lost == nil:
		s.cfg.Origin.Lost(ErrUnknownSession)
		s.kept = false
		s.lose(ErrUnknownSession)
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
