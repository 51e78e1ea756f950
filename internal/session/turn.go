package session

import (
	"context"
	"sync/atomic"
)

// maxPipelined bounds the bytes of unanswered pipelined frames.
const maxPipelined = 16 << 20

// Turn is a place in the session's queue: the right to make one request, or to run
// one deferred function. Begin takes it, Wait waits for it, Finish gives it back.
type Turn struct {
	s       *Session
	op      Op
	face    Face
	size    int
	granted chan struct{} // closed on grant; nil when granted at once
	holding bool          // this turn may write; guarded by s.mu
	flying  bool          // written and unanswered under pipelining; guarded by s.mu
	done    bool          // guarded by s.mu
	outer   *scope        // not nil: this turn runs inside another's
	inner   *scope        // what a ctx given to user code refers to
}

// scope is what a ctx carries while user code runs inside a turn.
type scope struct {
	s    *Session
	ops  uint16        // operations whose interceptors are running
	sem  chan struct{} // one nested call at a time
	over atomic.Bool
}

type scopeKey struct{}

// Begin claims the execution mode and takes a place in the queue, in one atomic
// step and without waiting for the place. With a ctx that holds a turn of this
// session the call goes inside that turn and claims nothing.
func (s *Session) Begin(ctx context.Context, face Face, op Op, size int) (*Turn, error) {
	if outer, ok := ctx.Value(scopeKey{}).(*scope); ok && outer.s == s && !outer.over.Load() {
		if outer.ops&(1<<op) != 0 {
			return nil, ErrSelfCall
		}
		return &Turn{s: s, op: op, size: size, outer: outer}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if err := s.claim(face); err != nil {
		return nil, err
	}
	t := &Turn{s: s, op: op, face: face, size: size}
	if len(s.queue) == 0 && s.admits(t) {
		t.holding = true
		s.holder = t
	} else {
		t.granted = make(chan struct{})
		s.queue = append(s.queue, t)
	}
	return t, nil
}

// claim locks the session to a face; the caller holds mu.
func (s *Session) claim(face Face) error {
	switch {
	case face == FaceNone || face == s.face:
	case s.face == FaceNone:
		s.face = face
	case face == FaceBlocking && s.futures == 0:
		s.face = FaceBlocking // the one hand-over: every future has finished
	default:
		return &ModeError{Locked: s.face, Tried: face, Pending: face == FaceBlocking}
	}
	if face == FaceAsync {
		s.futures++
	}
	return nil
}

// admits reports whether t may write now; the caller holds mu.
func (s *Session) admits(t *Turn) bool {
	switch {
	case s.holder != nil:
		return false
	case s.flying == 0:
		return true
	case !t.op.pipelines():
		return false
	}
	return s.flying < s.cfg.Pipelining && s.flyingBytes+t.size <= maxPipelined
}

// advance grants the next turn when it may write; the caller holds mu.
func (s *Session) advance() {
	if len(s.queue) == 0 || !s.admits(s.queue[0]) {
		return
	}
	t := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	t.holding = true
	s.holder = t
	close(t.granted)
}

// Wait blocks until the turn has come. When it fails the turn is still to be finished.
func (t *Turn) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if t.outer != nil {
		select {
		case t.outer.sem <- struct{}{}:
			t.holding = true
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.s.closing():
			return ErrClosed
		}
	}
	if t.granted == nil {
		return nil
	}
	select {
	case <-t.granted:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.s.closing():
		return ErrClosed
	}
}

// Enter returns a ctx that holds the turn, for user code that runs inside it. The
// operation itself is refused in there, except for a deferred function, which has none.
func (t *Turn) Enter(ctx context.Context) context.Context {
	t.inner = &scope{s: t.s, sem: make(chan struct{}, 1)}
	if t.op != OpDefer {
		t.inner.ops = 1 << t.op
	}
	if t.outer != nil {
		t.inner.ops |= t.outer.ops
	}
	return context.WithValue(ctx, scopeKey{}, t.inner)
}

// leave ends the scope given to user code: a call in there is waited for, later
// ones are ordinary calls.
func (t *Turn) leave() {
	if t.inner == nil || t.inner.over.Load() {
		return
	}
	t.inner.sem <- struct{}{}
	t.inner.over.Store(true)
	<-t.inner.sem
}

// written lets the next pipelined turn write; the caller holds mu. From here on
// user code inside this turn is outside of the order.
func (t *Turn) written() {
	if t.s.cfg.Pipelining <= 1 || !t.op.pipelines() || t.outer != nil {
		return
	}
	if t.inner != nil {
		t.inner.over.Store(true)
	}
	t.holding = false
	t.flying = true
	t.s.holder = nil
	t.s.flying++
	t.s.flyingBytes += t.size
	t.s.advance()
}

// Finish gives the turn back. It is idempotent.
func (t *Turn) Finish() {
	t.leave()
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.done {
		return
	}
	t.done = true
	if t.face == FaceAsync {
		s.futures--
	}
	switch {
	case t.outer != nil:
		if t.holding {
			<-t.outer.sem
		}
		return
	case t.flying:
		s.flying--
		s.flyingBytes -= t.size
	case s.holder == t:
		s.holder = nil
	default:
		s.unqueue(t)
	}
	s.advance()
}

// unqueue removes a turn that gave up waiting; the caller holds mu.
func (s *Session) unqueue(t *Turn) {
	for i, q := range s.queue {
		if q == t {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return
		}
	}
}
