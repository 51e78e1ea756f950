package envserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openenv-go/openenv/internal/wire"
)

var (
	errSessionEnded = errors.New("session has ended")
	errPanicked     = errors.New("environment panicked")
)

// hosted is one environment from its build to its close, whoever talks to it: a
// session socket, HTTP, or both. What it holds of the server, a slot for instance, it
// gives back when the environment is closed.
type hosted struct {
	id      string
	srv     *Server
	env     instance // nil until it is built
	thread  *thread  // nil: calls run where they are made
	release func()   // gives back what the session holds
	endSpan func(error)

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	busy   chan struct{} // held by the call in progress: calls never overlap
	over   chan struct{} // closed when the environment is closed

	mu           sync.Mutex
	calls        int         // in progress or waiting
	orphans      int         // sockets whose clients are gone, and whose calls may be running
	active       time.Time   // the last sign of life
	alarm        *time.Timer // nil without a limit to a session's silence
	overHTTP     bool        // made over HTTP: sockets come and go
	everAttached bool        // a socket was on it
	socket       *socket     // that is on it
	numbers      *numbers    // nil unless it had a socket with numbers
	closing      bool        // to be ended when its socket goes
	expired      bool        // the same, because it was silent
	ended        bool
	broken       error // what became of a call after nobody waited for it any more
}

// newHosted prepares a session; h.end must follow, built or not.
func (s *Server) newHosted(base context.Context, thread *thread, release func()) *hosted {
	h := &hosted{
		srv: s, thread: thread, release: release, endSpan: noSpan,
		busy: make(chan struct{}, 1), over: make(chan struct{}),
	}
	h.ctx, h.cancel = context.WithCancelCause(base)
	return h
}

// call is a request to an environment.
type call struct {
	typ  string         // reset, step or state
	data jsontext.Value // of a reset; the action of a step is in the instance
	out  *bytes.Buffer
	ask  func(context.Context, instance) error // in place of the three
}

// do runs one call on the environment, waiting for the one before it. The ctx that
// the environment is given ends with ctx, which is the session's or shorter, or after
// the step limit.
func (h *hosted) do(ctx context.Context, c call) (err error) {
	if !h.enter() {
		return errSessionEnded
	}
	defer h.leave()
	select {
	case h.busy <- struct{}{}:
	default:
		if err := h.waitBusy(ctx); err != nil {
			return err
		}
	}
	if err := h.usable(ctx); err != nil {
		<-h.busy
		return err
	}
	begun := time.Now()
	ctx, endSpan := h.srv.startSpan(ctx, c.typ, h.id)
	if h.thread == nil && h.srv.set.stepTimeout == 0 {
		err = h.run(ctx, c)
	} else {
		err = h.runApart(ctx, c)
	}
	endSpan(err)
	h.srv.metrics.observe(c.typ, begun)
	return err
}

// usable reports why no call may begin although the environment is free.
func (h *hosted) usable(ctx context.Context) error {
	if h.ctx.Err() != nil {
		return errSessionEnded
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken
}

// waitBusy waits for the environment behind another call, for as long as a call may
// take itself.
func (h *hosted) waitBusy(ctx context.Context) error {
	var limit <-chan time.Time
	if d := h.srv.set.stepTimeout; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		limit = t.C
	}
	select {
	case h.busy <- struct{}{}:
		return nil
	case <-limit:
		return fmt.Errorf("environment is busy with a call that exceeded its limit of %v", h.srv.set.stepTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.ctx.Done():
		return errSessionEnded
	}
}

// run calls the environment on this goroutine and contains its panics.
func (h *hosted) run(ctx context.Context, c call) (err error) {
	defer func() { <-h.busy }()
	defer contain(&err)
	switch {
	case c.ask != nil:
		return c.ask(ctx, h.env)
	case c.typ == wire.TypeReset:
		return h.env.reset(ctx, c.data, c.out)
	case c.typ == wire.TypeStep:
		return h.env.step(ctx, c.out)
	}
	return h.env.state(ctx, c.out)
}

// build makes the environment where it will live. Its panics are contained.
func (h *hosted) build(ctx context.Context) (err error) {
	submitted := h.onThread(ctx, func() {
		defer contain(&err)
		h.env, err = h.srv.kind.build(ctx)
	})
	if submitted != nil {
		return submitted
	}
	return err
}

// onThread runs f where the environment lives and waits for it. With an error f did
// not run.
func (h *hosted) onThread(ctx context.Context, f func()) error {
	if h.thread == nil {
		f()
		return nil
	}
	done := make(chan struct{})
	if err := h.thread.submit(ctx, func() { defer close(done); f() }); err != nil {
		return err
	}
	<-done
	return nil
}

// enter counts a call in; it reports false on a session that has ended.
func (h *hosted) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return false
	}
	h.calls++
	return true
}

func (h *hosted) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls--
	h.stamp()
}

// end cancels the call in progress, waits for it, closes the environment and gives
// back what the session holds. Who calls it again waits for the first.
func (h *hosted) end(cause error) {
	h.mu.Lock()
	again := h.ended
	h.ended = true
	if h.alarm != nil {
		h.alarm.Stop()
	}
	h.mu.Unlock()
	if again {
		<-h.over
		return
	}
	h.cancel(cause)
	h.busy <- struct{}{}
	h.close()
	h.thread.release()
	h.endSpan(nil)
	h.release()
	h.srv.set.logger.Debug("session ended", "session", h.id, "cause", cause)
	close(h.over)
}

// close closes the environment, if there is one, on its thread or, when that is gone,
// here.
func (h *hosted) close() {
	if h.env == nil {
		return
	}
	var err error
	closing := func() {
		defer contain(&err)
		err = h.env.close()
	}
	if h.onThread(context.Background(), closing) != nil {
		closing()
	}
	if err != nil {
		h.srv.logPanic(h.id, err)
		h.srv.set.logger.Warn("closing an environment failed", "session", h.id, "environment", h.srv.kind.name, "err", err)
	}
}

// contain turns a panic of user code into an error with its stack.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = &panicError{value: p, stack: debug.Stack()}
	}
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%v: %v", errPanicked, e.value) }
func (e *panicError) Unwrap() error { return errPanicked }
