package session

import (
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
// caller holds mu. Those that nobody waits for are dropped, and so are one whose reply was
// too large and one that the server finds too large: they would be so again.
func (s *Session) strand(c *conn) {
	var kept []*waiter
	refused := c.tooLarge()
	for i, w := range c.fifo {
		switch {
		case w.unwanted:
			s.settle(w, outcome{})
		case w == refused:
			s.settle(w, outcome{err: c.cause})
		case i == 0 && errors.Is(c.cause, wsock.ErrTooBig) && w.op.mutates():
			s.settle(w, outcome{err: &ReplyLostError{Op: w.op, Cause: c.cause}})
		case i == 0 && errors.Is(c.cause, wsock.ErrTooBig), w.op == OpProbe:
			s.settle(w, outcome{err: s.failure(c, w.op, true)})
		default:
			kept = append(kept, w.unbound())
		}
	}
	s.stranded = append(kept, s.stranded...)
	if s.flight == nil {
		s.comeBackFrom(c)
	}
}

// tooLarge returns the request that a server has refused to read, which was not applied:
// the largest one, when others are in the air. It is nil when that is not why c ended.
func (c *conn) tooLarge() (w *waiter) {
	if closed, ok := errors.AsType[*wsock.CloseError](c.cause); !ok || closed.Code != wsock.CloseTooBig {
		return nil
	}
	for _, other := range c.fifo {
		if w == nil || len(other.request) > len(w.request) {
			w = other
		}
	}
	return w
}

// comeBackFrom begins the flight that attaches another socket; the caller holds mu.
func (s *Session) comeBackFrom(c *conn) {
	ctx, cancel := context.WithCancelCause(s.base)
	f := &flight{done: make(chan struct{}), cancel: cancel}
	s.flight = f
	s.spawn(func() { defer cancel(nil); s.comeBack(ctx, f, c) })
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
	c, err := s.attachAgain(ctx, f, last)
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

// trial is the way back from one loss. A socket that was found on it and did not hold
// hands it on to the next one: however often a server lets sockets in and drops them, it
// is one loss.
type trial struct {
	since    time.Time // the loss; zero: there was none
	attempts int
	pause    time.Duration // before the next attempt, but the first
}

// loss returns the trial that the end of c begins, or goes on with. The caller holds mu.
func (s *Session) loss(c *conn) trial {
	if c.trial.since.IsZero() || c.useful || time.Since(c.opened) > maxBackoff {
		return trial{since: time.Now(), pause: s.cfg.Resume.Backoff}
	}
	return c.trial
}

// wait makes the pause before an attempt. Half of it is chance, so that the clients of a
// server which came back do not all knock at once.
func (t *trial) wait(ctx context.Context) error {
	t.attempts++
	if t.attempts == 1 {
		return nil
	}
	timer := time.NewTimer(t.pause/2 + time.Duration(rand.Int64N(int64(t.pause)/2+1)))
	defer timer.Stop()
	t.pause = min(2*t.pause, maxBackoff)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attachAgain tries until a socket is attached, the server has no such session, or it
// was enough. When it returns a connection, that is open and s.flight is over.
func (s *Session) attachAgain(ctx context.Context, f *flight, last *conn) (*conn, error) {
	policy := s.cfg.Resume
	s.mu.Lock()
	t := s.loss(last)
	s.mu.Unlock()
	bounded, cancel := context.WithDeadlineCause(ctx, t.since.Add(policy.MaxWait), fmt.Errorf("gave up after %v", policy.MaxWait))
	defer cancel()
	failed := last.cause
	for {
		if policy.Attempts > 0 && t.attempts >= policy.Attempts {
			return nil, s.giveUp(ctx, fmt.Errorf("gave up after %d attempts: %w", t.attempts, failed))
		}
		if err := t.wait(bounded); err != nil {
			return nil, s.giveUp(ctx, fmt.Errorf("%w: %w", err, failed))
		}
		c, err := s.attach(bounded, last.id)
		if err == nil {
			if err = s.settleFlight(f, c, t); err == nil {
				return c, nil
			}
		}
		failed = err
		switch {
		case ctx.Err() != nil:
			return nil, err
		case s.isGone():
			return nil, s.giveUp(ctx, err)
		}
	}
}

// settleFlight ends the flight if c is still open, and else says why it is not.
func (s *Session) settleFlight(f *flight, c *conn, t trial) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.trial = t
	if s.conn != c {
		return s.failure(c, OpProbe, false)
	}
	if s.flight == f {
		s.flight = nil
	}
	return nil
}

// find opens the first socket of a session: behind one address there may be servers that
// have not made it.
func (s *Session) find(ctx context.Context) (*conn, error) {
	c, err := s.dialSocket(ctx)
	policy := s.cfg.Resume
	if policy == nil || !errors.Is(err, ErrOtherServer) {
		return c, err
	}
	bounded, cancel := context.WithTimeout(ctx, policy.MaxWait)
	defer cancel()
	t := trial{attempts: 1, pause: policy.Backoff}
	for errors.Is(err, ErrOtherServer) && (policy.Attempts == 0 || t.attempts < policy.Attempts) {
		if t.wait(bounded) != nil {
			break
		}
		c, err = s.dialSocket(ctx)
	}
	return c, err
}

// isGone reports that the server does not know the session any more.
func (s *Session) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// giveUp tells the server that nobody comes back, if it can be reached, and returns why
// that is so.
func (s *Session) giveUp(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.cfg.CloseTimeout, 100*time.Millisecond))
	defer cancel()
	if err := s.releaseOrigin(ctx); err != nil {
		return fmt.Errorf("%w; the session could not be ended: %w", why, err)
	}
	return why
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
		s.mu.Lock()
		defer s.mu.Unlock()
		c.end(fmt.Errorf("no answer: %w", err)) // nobody waits for a late one
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
		request := w.request
		s.mu.Unlock()
		if err := s.put(ctx, c, w, request); err != nil {
			s.mu.Lock()
			c.end(err)
			s.mu.Unlock()
		}
		<-c.writing
	}
}
