package session

import (
	"context"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
)

// sayGoodbye asks the server to end the session and gives it a moment to close
// the socket itself (core/env_server/http_server.py: the session is destroyed
// before the socket is closed). It reports whether the request went out.
func (c *conn) sayGoodbye(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	w := &waiter{}
	if c.numbered {
		c.s.mu.Lock()
		c.s.numbers++
		w.id = c.s.numbers
		c.s.mu.Unlock()
	}
	err := c.send(ctx, w, wire.CloseRequest)
	<-c.writing
	if err != nil {
		return false
	}
	select {
	case <-c.reader:
	case <-ctx.Done():
	}
	return true
}

// Disconnect ends the socket, and with it a session that lives on it. Calls that
// wait for a reply fail. It returns when the socket is closed or ctx ends.
func (s *Session) Disconnect(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.abandonResume()
	if s.conn != nil {
		s.conn.end(ErrDisconnected)
	}
	if s.kept { // there was no socket to tell of it
		s.kept = false
		s.lose(ErrDisconnected)
	}
	s.mu.Unlock()
	if err := s.settleDrops(ctx); err != nil {
		return err
	}
	return s.releaseOrigin(ctx)
}

// abandonResume ends the wait for another socket; the caller holds mu.
func (s *Session) abandonResume() {
	if s.flight == nil || s.flight.cancel == nil {
		return
	}
	s.flight.cancel(ErrDisconnected)
	s.flight = nil
	s.failStranded(func(*waiter) error { return &LostError{Cause: ErrDisconnected, Sent: true} })
}

// settleDrops waits until the sockets that were given up are closed: each holds a
// slot on the server until then.
func (s *Session) settleDrops(ctx context.Context) error {
	for {
		s.mu.Lock()
		var c *conn
		for c = range s.drops {
			break
		}
		s.mu.Unlock()
		if c == nil {
			return nil
		}
		select {
		case <-c.gone:
		case <-ctx.Done():
			return left(ctx)
		}
	}
}

// Close ends the session for good: every waiting call fails with ErrClosed, the
// socket is closed, and the session's goroutines have ended when it returns. It is
// bounded by the close timeout and idempotent; functions of the user that do not heed
// their ctx are not waited for beyond it, and reported as false.
func (s *Session) Close() (clean bool) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.cancel(ErrClosed)
		if s.conn != nil {
			s.conn.end(ErrClosed)
		}
		s.flight = nil
		s.failStranded(func(*waiter) error { return ErrClosed })
		s.line = line{}
	}
	s.mu.Unlock()

	limit := max(2*s.cfg.CloseTimeout, 100*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = s.settleDrops(ctx) // a session with a socket on it does not end; the release is tried in any case
	if err := s.lastRelease(ctx); err != nil {
		s.cfg.Logger.Warn("the server's session could not be ended", "err", err)
	}
	late := time.NewTimer(limit) // of its own: a server that does not answer may have used up the other
	defer late.Stop()
	select {
	case <-s.quiet():
		return true
	case <-late.C:
	}
	if !s.onlyOwn() {
		return false
	}
	<-s.quiet() // the machine is slow, and what runs has limits of its own
	return true
}

// lastRelease ends the server's session within half the time of Close: who cannot reach
// the server leaves it to the lease.
func (s *Session) lastRelease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.cfg.CloseTimeout, 50*time.Millisecond))
	defer cancel()
	return s.releaseOrigin(ctx)
}

// Reopen makes a closed session usable again, as if it were new: no episode, no
// face claimed. It is for clients whose server was started anew.
func (s *Session) Reopen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		return
	}
	s.closed = false
	s.lost = nil
	s.kept = false
	s.everReset = false
	s.face = FaceNone
	s.base, s.cancel = context.WithCancelCause(context.Background())
}
