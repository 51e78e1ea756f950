package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"time"
)

// flight is a dial in progress that several callers wait for.
type flight struct {
	done   chan struct{}
	conn   *conn // set before done is closed, unless err is
	err    error
	cancel context.CancelCauseFunc // of one that attaches another socket; else nil
}

// Plan says how one flight goes on. Its functions are called on the flight's
// goroutine, with nothing locked; those that are nil are not asked.
type Plan struct {
	// Admit reports, after a dial, whether to wait until the server admits the session.
	Admit func() bool
	// Next reports, after a failure, whether there is another place to try at once.
	Next func(ctx context.Context, err error) bool
	// GiveUp is told the last failure and returns the error to report.
	GiveUp func(ctx context.Context, err error) error
}

// fly makes the connection that every waiting caller gets. It runs on the
// session's ctx: a caller that leaves does not take the others' dial with it.
func (s *Session) fly(ctx context.Context, f *flight) {
	defer close(f.done)
	plan := s.cfg.Plan()
	f.conn, f.err = s.dialWithRetry(ctx, plan)
	if f.err != nil && ctx.Err() == nil && plan.GiveUp != nil {
		f.err = plan.GiveUp(ctx, f.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight == f {
		s.flight = nil
	}
	switch {
	case ctx.Err() != nil:
		f.conn, f.err = nil, ErrClosed
	case f.err == nil && f.conn.cause != nil && s.survives(f.conn):
		s.comeBackFrom(f.conn) // it ended while this flight stood in the way of another
	}
}

func (s *Session) dialWithRetry(ctx context.Context, plan Plan) (*conn, error) {
	pause := s.cfg.Retry.Base
	for attempt := 1; ; attempt++ {
		c, err := s.dial(ctx, plan)
		for err != nil && ctx.Err() == nil && plan.Next != nil && plan.Next(ctx, err) {
			c, err = s.dial(ctx, plan)
		}
		if err == nil || attempt >= s.cfg.Retry.Attempts || ctx.Err() != nil {
			return c, err
		}
		if _, lost := errors.AsType[*LostError](err); lost || s.cfg.Final != nil && s.cfg.Final(err) {
			return nil, err
		}
		// Jitter only lengthens a pause, and by less than the pause grows: gaps never
		// shrink, and no more dials fit into a time than without it.
		wait := capped(pause+time.Duration(rand.Int64N(int64(pause)/4+1)), s.cfg.Retry.Max)
		s.cfg.Logger.Debug("dial failed, will retry", "attempt", attempt, "pause", wait, "err", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
		pause = capped(2*pause, s.cfg.Retry.Max)
	}
}

// capped limits d; a limit of 0 is none.
func capped(d, limit time.Duration) time.Duration {
	if limit > 0 {
		return min(d, limit)
	}
	return d
}

// dial opens one socket. When a refusal is to be answered with another dial, it also
// waits to be admitted: a refusal comes only after the upgrade has succeeded.
func (s *Session) dial(ctx context.Context, plan Plan) (*conn, error) {
	c, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case c.marks():
		_, err = s.ask(ctx, c)
	case s.cfg.Retry.Attempts > 1 || plan.Admit != nil && plan.Admit():
		err = s.admit(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// dialSocket opens a socket and starts its reader.
func (s *Session) dialSocket(ctx context.Context) (*conn, error) {
	if err := s.settleDrops(ctx); err != nil {
		return nil, err
	}
	query, err := s.acquireOrigin(ctx)
	if err != nil {
		return nil, &DialError{Err: err}
	}
	id := query.Get("session_id")
	ws, err := s.cfg.Dial(ctx, query)
	if err != nil {
		return nil, s.notDialled(id, err)
	}
	c := newConn(s, ws)
	c.id = id
	s.mu.Lock()
	if ctx.Err() != nil {
		s.mu.Unlock()
		ws.Abort()
		return nil, ErrClosed
	}
	c.hadReset = s.everReset
	c.dirty, c.wasDirty = s.kept, s.kept
	s.kept = false
	s.conn, s.attached = c, id
	s.spawnOwn(c.read)
	s.mu.Unlock()
	return c, nil
}

// notDialled says what a failed dial to session id means. When another server answers
// for one that had a socket, its own is taken to be gone: most often it was started anew,
// and only a client that resumes goes on looking for it.
func (s *Session) notDialled(id string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Resume != nil || id == "" || id != s.attached || !errors.Is(err, ErrOtherServer) {
		return &DialError{Err: err}
	}
	s.cfg.Origin.Lost(ErrUnknownSession)
	if !s.kept {
		return &DialError{Err: ErrUnknownSession}
	}
	s.kept = false
	s.lose(ErrUnknownSession)
	return s.reportLoss()
}

// admit asks the server whether it has a session for this socket: the upgrade
// succeeds before the environment is built, and any reply but a refusal is a yes.
// The question is the connection's, not the caller's: one who leaves does not take
// the answer from the others.
func (s *Session) admit(ctx context.Context, c *conn) error {
	s.mu.Lock()
	if !c.probing && len(c.fifo) == 0 && !isClosed(c.admitted) && c.cause == nil {
		c.probing = true
		base := s.base
		s.spawn(func() { s.probe(base, c) })
	}
	s.mu.Unlock()
	select {
	case <-c.admitted:
		return nil
	default:
	}
	select {
	case <-c.admitted:
		return nil
	case <-c.ended:
		return s.endError(c, OpProbe, false)
	case <-ctx.Done():
		return left(ctx)
	}
}

// acquireOrigin and releaseOrigin keep the promise that calls on an Origin do not
// overlap.
func (s *Session) acquireOrigin(ctx context.Context) (url.Values, error) {
	select {
	case s.origin <- struct{}{}:
		defer func() { <-s.origin }()
		return s.cfg.Origin.Acquire(ctx)
	case <-ctx.Done():
		return nil, left(ctx)
	}
}

// releaseOrigin tells the origin that its session is over. It waits for another call
// on the origin no longer than ctx, but does not refuse a free one because ctx is over.
func (s *Session) releaseOrigin(ctx context.Context) error {
	select {
	case s.origin <- struct{}{}:
	default:
		select {
		case s.origin <- struct{}{}:
		case <-ctx.Done():
			return left(ctx)
		}
	}
	defer func() { <-s.origin }()
	return s.cfg.Origin.Release(ctx)
}
