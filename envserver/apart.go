package envserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// limitError is a call that exceeded the step limit.
type limitError struct {
	typ   string
	limit time.Duration
}

func (e *limitError) Error() string {
	return fmt.Sprintf("%s exceeded the limit of %v", e.typ, e.limit)
}

var errExited = fmt.Errorf("%w: it ended its goroutine", errPanicked)

// apart is a call on another goroutine than its caller's: on the environment's thread,
// or so that the caller can leave when the step limit is over. A call that overstays
// keeps the environment until it returns, and its output is thrown away.
type apart struct {
	h       *hosted
	typ     string
	perform func(context.Context, *bytes.Buffer) error
	out     bytes.Buffer
	begin   chan context.Context
	done    chan error
	settled atomic.Bool // by the end of the call or by the caller's leaving, who came first
}

func (h *hosted) runApart(ctx context.Context, c call) error {
	a := &apart{h: h, typ: c.typ, begin: make(chan context.Context, 1), done: make(chan error, 1)}
	if c.ask != nil {
		a.perform = func(ctx context.Context, _ *bytes.Buffer) error { return c.ask(ctx, h.env) }
	} else {
		a.perform = h.env.prepare(c.typ, c.data)
	}
	if err := a.spawn(ctx); err != nil {
		<-h.busy
		return err
	}
	limit := h.srv.set.stepTimeout
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &limitError{c.typ, limit})
		defer cancel()
	}
	a.begin <- ctx
	if limit > 0 {
		select {
		case err := <-a.done:
			return a.result(ctx, c.out, err)
		case <-ctx.Done():
			if a.settled.CompareAndSwap(false, true) {
				return context.Cause(ctx)
			}
		}
	}
	return a.result(ctx, c.out, <-a.done)
}

// spawn starts the goroutine. On a shared thread that means waiting for other sessions'
// calls, for as long as a call may take itself.
func (a *apart) spawn(ctx context.Context) error {
	if a.h.thread == nil {
		go a.run()
		return nil
	}
	if limit := a.h.srv.set.stepTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the environments' thread was not free within %v", limit))
		defer cancel()
	}
	return a.h.thread.submit(ctx, a.run)
}

func (a *apart) run() {
	err := errExited
	defer func() {
		awaited := a.settled.CompareAndSwap(false, true)
		if !awaited && errors.Is(err, errPanicked) {
			a.h.breakDown(err)
		}
		<-a.h.busy // first: who gets the result finds the environment free
		if awaited {
			a.done <- err
		}
	}()
	err = a.contained(<-a.begin)
}

func (a *apart) contained(ctx context.Context) (err error) {
	defer contain(&err)
	return a.perform(ctx, &a.out)
}

// result hands the output over. What an environment says that was told to stop at the
// limit matters less than that it was.
func (a *apart) result(ctx context.Context, out *bytes.Buffer, err error) error {
	var late *limitError
	if err != nil && !errors.Is(err, errPanicked) && errors.As(context.Cause(ctx), &late) {
		return late
	}
	if err == nil && out != nil {
		out.Write(a.out.Bytes())
	}
	return err
}

// overstayed reports whether a call that nobody waits for is still running.
func (h *hosted) overstayed() bool {
	select {
	case h.busy <- struct{}{}:
		<-h.busy
		return false
	default:
		return true
	}
}

// breakDown marks a session whose environment panicked after its caller had left: the
// next call is answered with it and ends the session.
func (h *hosted) breakDown(err error) {
	h.srv.logPanic(h.id, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = err
}
