package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/openenv-go/openenv/internal/wsock"
)

// Config is what a session is made of. Dial is required; zero limits are off.
type Config struct {
	// Dial opens the socket with these query parameters. It applies its own limit
	// within ctx.
	Dial           func(ctx context.Context, query url.Values) (*wsock.Conn, error)
	Origin         Origin // nil: the session lives on its socket
	MessageTimeout time.Duration
	CloseTimeout   time.Duration
	Pipelining     int // frames in flight; below 2 means none before the reply
	KeepOnCancel   bool
	Retry          Retry
	Final          func(error) bool // failures that Retry must not repeat; nil: none
	Logger         *slog.Logger
}

// Session is one server session of one client. All methods are safe for
// concurrent use. The owner calls Close.
type Session struct {
	cfg Config

	mu          sync.Mutex
	closed      bool
	face        Face
	futures     int // started async calls that have not finished
	holder      *Turn
	queue       []*Turn
	flying      int
	flyingBytes int

	conn      *conn
	flight    *flight
	drops     map[*conn]struct{} // ended sockets whose close is in progress
	lost      *LostError
	everReset bool

	base    context.Context // ends with Close
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // every goroutine of the session
}

// flight is a dial in progress that several callers wait for.
type flight struct {
	done chan struct{}
	err  error
}

// New makes a session. It does no I/O.
func New(cfg Config) *Session {
	if cfg.Origin == nil {
		cfg.Origin = socketOrigin{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Session{cfg: cfg, drops: make(map[*conn]struct{})}
	s.base, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Go runs f on a goroutine that the session owns, so that Close waits for it. On a
// closed session it does nothing and returns false.
func (s *Session) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

// Base returns a ctx that ends when the session closes.
func (s *Session) Base() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base
}

func (s *Session) closing() <-chan struct{} { return s.Base().Done() }

// ended records what the end of a socket means for the episode; the caller holds mu.
func (s *Session) ended(c *conn, cause error) {
	if s.cfg.Origin.Lost(cause) == FateKept {
		return
	}
	if c.dirty {
		s.lost = &LostError{Cause: cause}
	}
	s.cfg.Logger.Debug("session socket ended", "cause", cause, "dirty", c.dirty)
}

// failure is the error of a call on a connection that has ended; the caller holds mu.
func (s *Session) failure(c *conn, sent bool) error {
	var refused *RefusedError
	switch {
	case errors.Is(c.cause, ErrClosed):
		return ErrClosed
	case c.dirty:
		return &LostError{Cause: c.cause, Sent: sent}
	case errors.As(c.cause, &refused):
		return refused
	}
	return &ConnError{Err: c.cause}
}

// Connect opens the socket if there is none and returns when the server has
// admitted the session. It takes no turn. A lost session that was never reset is
// given up for a new one.
func (s *Session) Connect(ctx context.Context) error {
	s.mu.Lock()
	if !s.everReset {
		s.lost = nil
	}
	s.mu.Unlock()
	c, err := s.acquire(ctx, OpProbe)
	if err != nil {
		return err
	}
	return s.admit(ctx, c)
}

// admit asks the server whether it has a session for this socket: the upgrade
// succeeds before the environment is built, and any reply but a refusal is a yes.
func (s *Session) admit(ctx context.Context, c *conn) error {
	s.mu.Lock()
	probe := !c.probing && len(c.fifo) == 0 && !isClosed(c.admitted)
	if probe {
		c.probing = true
	}
	s.mu.Unlock()
	if probe {
		if err := s.probe(ctx, c); err != nil {
			return err
		}
	}
	select {
	case <-c.admitted:
		return nil
	case <-c.ended:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.failure(c, false)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acquire returns the open connection, dialling when there is none. Callers that
// come during a dial wait for the same one.
func (s *Session) acquire(ctx context.Context, op Op) (*conn, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, ErrClosed
		case s.lost != nil && op.needsEpisode():
			lost := &LostError{Cause: s.lost.Cause}
			s.mu.Unlock()
			return nil, lost
		case s.conn != nil && s.flight == nil:
			c := s.conn
			s.mu.Unlock()
			return c, nil
		}
		f := s.flight
		if f == nil {
			f = &flight{done: make(chan struct{})}
			s.flight = f
			base := s.base
			s.running.Go(func() { s.fly(base, f) })
		}
		s.mu.Unlock()
		select {
		case <-f.done:
			if f.err != nil {
				return nil, f.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fly makes the connection that every waiting caller gets. It runs on the
// session's ctx: a caller that leaves does not take the others' dial with it.
func (s *Session) fly(ctx context.Context, f *flight) {
	defer close(f.done)
	f.err = s.dialWithRetry(ctx)
	s.mu.Lock()
	s.flight = nil
	if s.closed {
		f.err = ErrClosed
	}
	s.mu.Unlock()
}

func (s *Session) dialWithRetry(ctx context.Context) error {
	pause := s.cfg.Retry.Base
	for attempt := 1; ; attempt++ {
		err := s.dial(ctx)
		if err == nil || attempt >= s.cfg.Retry.Attempts || ctx.Err() != nil {
			return err
		}
		if s.cfg.Final != nil && s.cfg.Final(err) {
			return err
		}
		s.cfg.Logger.Debug("dial failed, will retry", "attempt", attempt, "pause", pause, "err", err)
		// Jitter only shortens the pause by up to a quarter, so that pauses still grow.
		wait := pause - time.Duration(rand.Int64N(int64(pause)/4+1))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		if pause *= 2; s.cfg.Retry.Max > 0 {
			pause = min(pause, s.cfg.Retry.Max)
		}
	}
}

// dial opens one socket. With retries asked for it also waits to be admitted: a
// refusal comes only after the upgrade has succeeded.
func (s *Session) dial(ctx context.Context) error {
	if err := s.settleDrops(ctx); err != nil {
		return err
	}
	query, err := s.cfg.Origin.Acquire(ctx)
	if err != nil {
		return &DialError{Err: err}
	}
	ws, err := s.cfg.Dial(ctx, query)
	if err != nil {
		return &DialError{Err: err}
	}
	c := newConn(s, ws)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		close(c.reader)
		ws.Abort()
		return ErrClosed
	}
	c.hadReset = s.everReset
	s.conn = c
	s.running.Go(c.read)
	s.mu.Unlock()
	if s.cfg.Retry.Attempts > 1 {
		return s.admit(ctx, c)
	}
	return nil
}

// Status is a snapshot for tests and logs.
type Status struct {
	Connected bool
	Face      Face
	Lost      error
}

// Status returns a snapshot of the session.
func (s *Session) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Connected: s.conn != nil, Face: s.face}
	if s.lost != nil {
		st.Lost = s.lost
	}
	return st
}

func (e *abandonError) Error() string { return fmt.Sprintf("%s was cancelled: %s", e.op, e.why) }

// abandonError is the cause of a socket that was dropped because its caller left.
// It does not match the caller's ctx error: that belongs to that caller alone.
type abandonError struct {
	op  Op
	why string
}
