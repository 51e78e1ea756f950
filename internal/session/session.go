package session

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/openenv-go/openenv/internal/wsock"
)

// Session is one server session of one client. All methods are safe for
// concurrent use. The owner calls Close.
type Session struct {
	cfg Config

	mu          sync.Mutex
	closed      bool
	face        Face
	futures     int // async calls that have claimed and not finished
	line        line
	flying      int // pipelined requests that are written and not answered
	flyingBytes int

	conn      *conn
	attached  string // the session made over HTTP that had the last socket
	flight    *flight
	drops     map[*conn]struct{} // ended sockets whose close is in progress
	lost      *LostError
	told      bool      // a caller has learnt of lost
	stranded  []*waiter // requests that wait for another socket, in order
	numbers   uint64    // requests numbered so far
	gone      bool      // the server does not know the session that a socket was attached to
	kept      bool      // something was done in a server session that has no socket now
	everReset bool

	base    context.Context // ends with Close
	cancel  context.CancelCauseFunc
	running int           // goroutines of the session
	own     int           // those of them that run nothing of the user's
	idle    chan struct{} // closed when running falls to 0; nil when nobody waits for it

	origin chan struct{} // lock held during each call to Origin but Lost
}

// Config is what a session is made of. Dial is required; zero limits are off.
type Config struct {
	// Dial opens the socket with these query parameters. It applies its own limit
	// within ctx.
	Dial           func(ctx context.Context, query url.Values) (*wsock.Conn, error)
	Plan           func() Plan // how one flight goes on; nil: the zero Plan
	Origin         Origin      // nil: the session lives on its socket
	Resume         *Resume     // nil: none; needs an Origin whose sessions are kept
	MessageTimeout time.Duration
	CloseTimeout   time.Duration
	Pipelining     int // frames in flight; below 2 means none before the reply
	KeepOnCancel   bool
	Retry          Retry
	Final          func(error) bool // failures that Retry must not repeat; nil: none
	Logger         *slog.Logger
}

// New makes a session. It does no I/O.
func New(cfg Config) *Session {
	if cfg.Origin == nil {
		cfg.Origin = socketOrigin{}
	}
	if cfg.Plan == nil {
		cfg.Plan = func() Plan { return Plan{} }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Session{cfg: cfg, drops: make(map[*conn]struct{}), origin: make(chan struct{}, 1)}
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
	s.spawn(f)
	return true
}

// spawn is Go for a caller that holds mu. It counts by itself, and not in a
// sync.WaitGroup, so that Close can stop waiting without leaving a goroutine behind.
func (s *Session) spawn(f func()) {
	s.running++
	go func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.running--; s.running == 0 && s.idle != nil {
				close(s.idle)
				s.idle = nil
			}
		}()
		f()
	}()
}

// spawnOwn is spawn for code that runs nothing of the user's and has a limit of its own.
func (s *Session) spawnOwn(f func()) {
	s.own++
	s.spawn(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.own--
		}()
		f()
	})
}

// onlyOwn reports that nothing of the user's is running.
func (s *Session) onlyOwn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running == s.own
}

// quiet returns a channel that is closed once no goroutine of the session runs.
func (s *Session) quiet() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s.idle
}

// Base returns a ctx that ends when the session closes.
func (s *Session) Base() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base
}

// ended records what the end of a socket means for the episode; the caller holds mu.
// What the user ended is over, whatever the origin makes of its socket.
func (s *Session) ended(c *conn) {
	fate := s.cfg.Origin.Lost(c.cause)
	c.kept = fate == FateKept && !deliberate(c.cause)
	s.kept = c.kept && c.dirty
	s.gone = !c.kept
	if c.dirty && !c.kept {
		s.lose(c.cause)
	}
}

// lose marks the episode as gone; the caller holds mu.
func (s *Session) lose(cause error) {
	s.lost = &LostError{Cause: cause}
	s.told = false
}

// refuses reports whether op is refused because its episode is gone. A tool call that
// comes after one which was told so, in a session that was never reset, starts a new
// session: tools have no episode. The caller holds mu.
func (s *Session) refuses(op Op) bool {
	if op == OpTool && s.told && !s.everReset {
		s.lost = nil
	}
	return s.lost != nil && op.needsEpisode()
}

// reportLoss is the error of a call that is refused; the caller holds mu.
func (s *Session) reportLoss() error {
	s.told = true
	return &LostError{Cause: s.lost.Cause}
}

// failure is the error of a call on a connection that has ended; the caller holds mu.
func (s *Session) failure(c *conn, op Op, sent bool) error {
	var refused *RefusedError
	switch {
	case errors.Is(c.cause, ErrClosed):
		return ErrClosed
	case c.dirty && !c.kept:
		s.told = true
		return &LostError{Cause: c.cause, Sent: sent}
	case c.kept && sent && op.mutates():
		return &DoubtError{Op: op, Cause: c.cause}
	case errors.As(c.cause, &refused):
		return refused
	}
	return &ConnError{Err: c.cause}
}

// Connect opens the socket if there is none and returns when the server has
// admitted the session. It takes no turn. A lost session that was never reset is
// then given up for the new one.
func (s *Session) Connect(ctx context.Context) error {
	c, err := s.acquire(ctx, OpProbe)
	if err != nil {
		return err
	}
	if err := s.admit(ctx, c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.everReset && s.conn == c {
		s.lost = nil
	}
	return nil
}

// acquire returns the open connection, dialling when there is none. Callers that
// come during a dial wait for the same one, and get what it made even when that has
// ended meanwhile: a refusal must reach them, not a second dial.
func (s *Session) acquire(ctx context.Context, op Op) (*conn, error) {
	if ctx.Err() != nil {
		return nil, left(ctx)
	}
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, ErrClosed
	case s.refuses(op):
		err := s.reportLoss()
		s.mu.Unlock()
		return nil, err
	case s.conn != nil && s.flight == nil:
		c := s.conn
		s.mu.Unlock()
		return c, nil
	}
	f, base := s.flight, s.base
	if f == nil {
		f = &flight{done: make(chan struct{})}
		s.flight = f
		s.spawn(func() { s.fly(base, f) })
	}
	s.mu.Unlock()
	select {
	case <-f.done:
		return f.conn, f.err
	case <-ctx.Done():
		return nil, left(ctx)
	case <-base.Done():
		return nil, ErrClosed
	}
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
