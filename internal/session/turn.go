package session

import (
	"context"
)

// maxPipelined bounds the bytes of unanswered pipelined frames.
const maxPipelined = 16 << 20

// Turn is a place in a line: the right to make one request, or to run one deferred
// function. Begin takes it, Wait waits for it, Finish gives it back.
type Turn struct {
	s       *Session
	op      Op
	face    Face
	size    int
	base    context.Context // ends with the session that the turn was taken on
	granted chan struct{}   // closed on grant or refusal; nil when granted at once
	refused error           // set before granted is closed, when the turn never comes

	// Guarded by s.mu.
	line     *line
	claimed  bool // counted among the unfinished futures
	done     bool // its caller has finished
	released bool // its place is free again
	inner    *scope
}

// line hands out turns one after the other: the session's, and one for each scope.
type line struct {
	holder *Turn
	queue  []*Turn
	scope  *scope // nil for the session's own line
}

// scope is what a ctx carries while user code runs inside a turn: calls made with
// it stand in a line of their own, and so never behind the turn they are in.
type scope struct {
	turn  *Turn
	outer *scope // the scope that turn itself runs in
	ops   uint16 // operations whose interceptors are running
	line  line
	over  bool // guarded by s.mu
}

// scopeKey is a key per session: a ctx can hold turns of several.
type scopeKey struct{ s *Session }

// Begin claims the execution mode and takes a place in the queue, in one atomic
// step and without waiting for the place. With a ctx that holds a turn of this
// session the call goes inside that turn and claims nothing.
func (s *Session) Begin(ctx context.Context, face Face, op Op, size int) (*Turn, error) {
	held, _ := ctx.Value(scopeKey{s}).(*scope)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	t := &Turn{s: s, op: op, face: face, size: size, base: s.base}
	return t, s.enlist(t, held)
}

// enlist puts t at the end of the line where it belongs: that of the innermost
// scope it was called in which is not over, else the session's, for which it claims
// its face. The caller holds mu.
func (s *Session) enlist(t *Turn, held *scope) error {
	for held != nil && (held.over || held.turn.base != t.base) {
		held = held.outer
	}
	l := &s.line
	if held != nil {
		if held.ops&(1<<t.op) != 0 {
			return ErrSelfCall
		}
		l = &held.line
	} else if err := s.claim(t); err != nil {
		return err
	}
	t.line = l
	if len(l.queue) == 0 && s.admits(l, t) {
		l.holder = t
		if t.granted != nil {
			close(t.granted)
		}
		return nil
	}
	if t.granted == nil {
		t.granted = make(chan struct{})
	}
	l.queue = append(l.queue, t)
	return nil
}

// claim locks the session to a turn's face; the caller holds mu.
func (s *Session) claim(t *Turn) error {
	switch {
	case t.face == FaceNone || t.face == s.face:
	case s.face == FaceNone:
		s.face = t.face
	case t.face == FaceBlocking && s.futures == 0:
		s.face = FaceBlocking // the one hand-over: every future has finished
	default:
		return &ModeError{Locked: s.face, Tried: t.face, Pending: t.face == FaceBlocking}
	}
	if t.face == FaceAsync {
		t.claimed = true
		s.futures++
	}
	return nil
}

// admits reports whether t may write now; the caller holds mu.
func (s *Session) admits(l *line, t *Turn) bool {
	switch {
	case l.holder != nil:
		return false
	case l.scope != nil || s.flying == 0:
		return true
	case !t.op.pipelines():
		return false
	}
	return s.flying < s.cfg.Pipelining && s.flyingBytes+t.size <= maxPipelined
}

// advance grants the next turn when it may write; the caller holds mu.
func (s *Session) advance(l *line) {
	if len(l.queue) == 0 || !s.admits(l, l.queue[0]) {
		return
	}
	l.holder = l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	close(l.holder.granted)
}

// Wait blocks until the turn has come. When it fails the turn is still to be finished.
func (t *Turn) Wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return left(ctx)
	}
	if t.base.Err() != nil {
		return ErrClosed
	}
	if t.granted == nil {
		return nil
	}
	select {
	case <-t.granted:
		return t.refused
	case <-ctx.Done():
		return left(ctx)
	case <-t.base.Done():
		return ErrClosed
	}
}

// Base returns a ctx that ends when the session closes that the turn belongs to.
func (t *Turn) Base() context.Context { return t.base }

// Enter returns a ctx that holds the turn, for user code that runs inside it. It is
// called at most once. The operation itself is refused in there, except for a
// deferred function, which has none.
func (t *Turn) Enter(ctx context.Context) context.Context {
	in := &scope{turn: t}
	in.line.scope = in
	if t.op != OpDefer {
		in.ops = 1 << t.op
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if outer := t.line.scope; outer != nil {
		in.outer = outer
		in.ops |= outer.ops
	}
	t.inner = in
	return context.WithValue(ctx, scopeKey{t.s}, in)
}

// written lets the next pipelined turn write; the caller holds mu. What user code
// inside this turn sends from now on comes after what is on the wire already.
func (t *Turn) written(w *waiter) {
	s := t.s
	if s.cfg.Pipelining <= 1 || !t.op.pipelines() || s.line.holder != t {
		return
	}
	s.line.holder = nil
	if !w.answered {
		w.flying, w.size = true, t.size
		s.flying++
		s.flyingBytes += t.size
	}
	s.advance(&s.line)
}

// landed ends the flight of a pipelined request; the caller holds mu.
func (s *Session) landed(w *waiter) {
	if !w.flying {
		return
	}
	w.flying = false
	s.flying--
	s.flyingBytes -= w.size
	s.advance(&s.line)
}

// Finish gives the turn back. It is idempotent and never waits: when a call inside
// the turn is still in progress, the place is free once that has finished, and the
// calls that wait behind it become ordinary ones.
func (t *Turn) Finish() {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.done {
		return
	}
	t.done = true
	if t.claimed {
		s.futures--
	}
	if in := t.inner; in != nil {
		in.over = true
		queue := in.line.queue
		in.line.queue = nil
		for _, q := range queue {
			if q.refused = s.relist(q, in.outer); q.refused != nil {
				close(q.granted)
			}
		}
	}
	s.release(t)
}

// relist moves a turn out of a scope that is over; the caller holds mu.
func (s *Session) relist(t *Turn, held *scope) error {
	if t.base.Err() != nil {
		return ErrClosed
	}
	return s.enlist(t, held)
}

// release makes a finished turn's place free; the caller holds mu.
func (s *Session) release(t *Turn) {
	if t.released || t.inner != nil && t.inner.line.holder != nil {
		return
	}
	t.released = true
	l := t.line
	if l.holder == t {
		l.holder = nil
	} else {
		l.remove(t)
	}
	s.advance(l)
	if l.scope != nil && l.scope.over {
		s.release(l.scope.turn)
	}
}

// remove takes out a turn that gave up waiting.
func (l *line) remove(t *Turn) {
	for i, q := range l.queue {
		if q == t {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			return
		}
	}
}
