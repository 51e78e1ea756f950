package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
)

// Resume says how a session that was made over HTTP lives through the loss of its
// socket: another one is attached, while callers wait.
type Resume struct {
	Attempts int           // to attach, for each loss; 0: as many as fit
	Backoff  time.Duration // the first pause between two; it doubles up to maxBackoff
	MaxWait  time.Duration // from the loss on
	// Trust sends a step again whose count did not grow, on a server that does not
	// number requests.
	Trust bool
}

const maxBackoff = 5 * time.Second

// survives reports whether the session goes on after the end of c; the caller holds mu.
func (s *Session) survives(c *conn) bool { return s.cfg.Resume != nil && c.kept && !s.closed }

// strand keeps the requests that wait on c for the socket that comes after it; the
// caller holds mu. Those that nobody waits for are dropped, and so is one whose reply
// was too large: it would be so again.
func (s *Session) strand(c *conn) {
	var kept []*waiter
	for i, w := range c.fifo {
		switch {
		case w.unwanted:
			s.settle(w, outcome{})
		case i == 0 && errors.Is(c.cause, wsock.ErrTooBig) && w.op.mutates():
			s.settle(w, outcome{err: &ReplyLostError{Op: w.op, Cause: c.cause}})
		case i == 0 && errors.Is(c.cause, wsock.ErrTooBig), w.op == OpProbe:
			s.settle(w, outcome{err: s.failure(c, w.op, true)})
		default:
			if !w.copied { // its caller waits, and may not touch the request before it has mu
				w.copied, w.request = true, bytes.Clone(w.request)
			}
			w.on = nil
			kept = append(kept, w)
		}
	}
	s.stranded = append(kept, s.stranded...)
	if s.flight == nil {
		ctx, cancel := context.WithCancelCause(s.base)
		f := &flight{done: make(chan struct{}), cancel: cancel}
		s.flight = f
		s.spawn(func() { defer cancel(nil); s.comeBack(ctx, f, c) })
	}
}

// failStranded ends the wait of all who waited for another socket; the caller holds mu.
func (s *Session) failStranded(err func(*waiter) error) {
	stranded := s.stranded
	s.stranded = nil
	for _, w := range stranded {
		s.settle(w, outcome{err: err(w)})
	}
}

// comeBack attaches sockets until one holds. It is the flight that every caller waits
// for meanwhile.
func (s *Session) comeBack(ctx context.Context, f *flight, last *conn) {
	defer close(f.done)
	lost := time.Now()
	s.cfg.Logger.Debug("session socket lost, attaching another one", "cause", last.cause)
	c, err := s.attachAgain(ctx, f, last.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight == f {
		s.flight = nil
	}
	if err == nil {
		f.conn = c
		s.cfg.Logger.Info("session resumed", "after", time.Since(lost), "numbered", c.numbered)
		return
	}
	if ctx.Err() != nil { // closed or disconnected, and who waits was told
		f.err = ErrClosed
		if errors.Is(context.Cause(ctx), ErrDisconnected) {
			f.err = &LostError{Cause: ErrDisconnected}
		}
		return
	}
	err = fmt.Errorf("%w; no way back: %w", last.cause, err)
	if s.kept {
		s.kept = false
		s.lose(err)
	}
	f.err = &DialError{Err: err}
	if s.lost != nil {
		s.told = len(s.stranded) > 0
		f.err = &LostError{Cause: s.lost.Cause}
	}
	s.failStranded(func(*waiter) error { return &LostError{Cause: err, Sent: true} })
}

// attachAgain tries until a socket is attached, the server has no such session, or it
// was enough. When it returns a connection, that is open and s.flight is over.
func (s *Session) attachAgain(ctx context.Context, f *flight, id string) (*conn, error) {
	policy := s.cfg.Resume
	bounded, cancel := context.WithTimeoutCause(ctx, policy.MaxWait, fmt.Errorf("gave up after %v", policy.MaxWait))
	defer cancel()
	pause := policy.Backoff
	for attempt := 1; ; attempt++ {
		c, err := s.attach(bounded, id)
		if err == nil && s.settleFlight(f, c) {
			return c, nil
		}
		switch {
		case ctx.Err() != nil:
			return nil, err
		case s.isGone():
			return nil, errors.Join(err, s.giveUpOrigin(ctx))
		case policy.Attempts > 0 && attempt >= policy.Attempts:
			return nil, errors.Join(fmt.Errorf("gave up after %d attempts", attempt), err, s.giveUpOrigin(ctx))
		}
		// Half of each pause is chance, so that the clients of a server which came back
		// do not all knock at once.
		timer := time.NewTimer(pause/2 + time.Duration(rand.Int64N(int64(pause)/2+1)))
		select {
		case <-timer.C:
		case <-bounded.Done():
			timer.Stop()
			return nil, errors.Join(context.Cause(bounded), err, s.giveUpOrigin(ctx))
		}
		pause = min(2*pause, maxBackoff)
	}
}

// settleFlight ends the flight if c is still open.
func (s *Session) settleFlight(f *flight, c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c || s.flight != f {
		return false
	}
	s.flight = nil
	return true
}

// isGone reports that the server does not know the session any more.
func (s *Session) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// giveUpOrigin tells the server that nobody comes back, if it can be reached.
func (s *Session) giveUpOrigin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.cfg.CloseTimeout, 100*time.Millisecond))
	defer cancel()
	if err := s.releaseOrigin(ctx); err != nil {
		return fmt.Errorf("the session could not be ended: %w", err)
	}
	return nil
}

// attach opens a socket to the session and settles what became of the requests that
// were on the wire.
func (s *Session) attach(ctx context.Context, id string) (*conn, error) {
	c, err := s.dialSocket(ctx)
	if err != nil {
		return nil, err
	}
	if c.id != id {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.end(ErrUnknownSession)
		return nil, ErrUnknownSession // another session must not pass for this one
	}
	if c.numbered && s.resend(ctx, c) {
		return c, nil
	}
	after, err := s.ask(ctx, c)
	if err != nil {
		return nil, err
	}
	if !c.numbered {
		s.judge(after)
		s.resend(ctx, c)
	}
	return c, nil
}

// ask is admit for a session that wants to know where its episode is. A state that
// cannot be read is nil.
func (s *Session) ask(ctx context.Context, c *conn) (*State, error) {
	x := &Exchange{Op: OpProbe, Request: wire.StateRequest}
	if _, err := s.exchange(ctx, c, nil, x); err != nil {
		return nil, err
	}
	state := readState(x.Type, x.Reply.Bytes())
	wire.PutBuffer(x.Reply)
	s.mu.Lock()
	c.before = state
	s.mu.Unlock()
	return state, nil
}

// resend writes the stranded requests on c, in order, and reports whether there were
// any. A write that fails ends c, which strands them again.
func (s *Session) resend(ctx context.Context, c *conn) (some bool) {
	for {
		select {
		case c.writing <- struct{}{}:
		case <-c.ended:
			return some
		case <-ctx.Done():
			return some
		}
		s.mu.Lock()
		if len(s.stranded) == 0 || c.cause != nil {
			s.mu.Unlock()
			<-c.writing
			return some
		}
		some = true
		w := s.stranded[0]
		s.stranded = s.stranded[1:]
		c.push(w)
		if w.op.mutates() {
			c.before = nil
		}
		s.mu.Unlock()
		if err := s.put(ctx, c, w); err != nil {
			s.mu.Lock()
			c.end(err)
			s.mu.Unlock()
		}
		<-c.writing
	}
}
