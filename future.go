package openenv

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/openenv-go/openenv/internal/session"
)

// Future is a call that was described and may run: at most once, when it is first
// awaited, started or got. Its outcome, an error included, is kept. All methods are
// safe for concurrent use.
type Future[T any] struct {
	job[T]

	mu      sync.Mutex
	started bool
	settled bool
	done    chan struct{}
	value   T
	err     error
}

// job is what a future runs.
type job[T any] struct {
	core *core // whose turn it needs; nil when it needs none
	op   session.Op
	size int
	run  func(ctx context.Context, t *session.Turn) (T, error) // t is nil without a core
}

func newFuture[T any](j job[T]) *Future[T] {
	return &Future[T]{job: j, done: make(chan struct{})}
}

// Lazy makes a future of any code, a bootstrap for instance. It claims no client.
func Lazy[T any](run func(context.Context) (T, error)) *Future[T] {
	return newFuture(job[T]{run: func(ctx context.Context, _ *session.Turn) (T, error) { return run(ctx) }})
}

// Session is any client: every struct that embeds a *Client has its method.
type Session interface{ sessionCore() *core }

// Defer makes a future of code that uses s. It takes one turn of the session for the
// whole of run, and the ctx given to run holds that turn: verbs of s called with it
// run inside the turn. So a verb that is written once, as a blocking method, has its
// second face for one line:
//
//	func (a *Async) Shout(text string) *openenv.Future[string] {
//		return openenv.Defer(a.c, func(ctx context.Context) (string, error) { return a.c.Shout(ctx, text) })
//	}
//
// When s closes, that ctx ends with [ErrClosed] as its cause.
func Defer[T any](s Session, run func(context.Context) (T, error)) *Future[T] {
	c := s.sessionCore()
	return newFuture(job[T]{core: c, op: session.OpDefer, run: func(ctx context.Context, t *session.Turn) (T, error) {
		defer t.Finish()
		if err := t.Wait(ctx); err != nil {
			var zero T
			return zero, c.convert(session.OpDefer.String(), err)
		}
		ctx, cancel := context.WithCancelCause(t.Enter(ctx))
		defer cancel(nil)
		stop := context.AfterFunc(c.sess.Base(), func() { cancel(ErrClosed) })
		defer stop()
		return run(ctx)
	}})
}

// Start runs the future on a goroutine that its client owns, after taking its place
// in the client's queue: futures started one after the other reach the server in that
// order. ctx bounds the run. A refused claim is the outcome. On a future that was
// started it does nothing. It returns f.
func (f *Future[T]) Start(ctx context.Context) *Future[T] {
	if !f.take() {
		return f
	}
	t, err := f.begin(ctx, session.FaceAsync)
	if err != nil {
		f.settle(*new(T), err)
		return f
	}
	if f.core == nil {
		go f.runStarted(ctx, nil)
		return f
	}
	stop := context.AfterFunc(f.core.sess.Base(), func() { f.settle(*new(T), f.core.convert(f.op.String(), session.ErrClosed)) })
	if !f.core.sess.Go(func() { f.runStarted(ctx, t); stop() }) {
		t.Finish()
		f.settle(*new(T), f.core.convert(f.op.String(), session.ErrClosed))
	}
	return f
}

func (f *Future[T]) runStarted(ctx context.Context, t *session.Turn) {
	value, err := f.run(ctx, t)
	f.settle(value, abandoned(ctx, err))
}

// Await returns the outcome. It runs a future that was not started on the caller's
// goroutine, with ctx bounding the run; it waits for one that was, with ctx bounding
// the wait only.
func (f *Future[T]) Await(ctx context.Context) (T, error) { return f.await(ctx, session.FaceAsync) }

// Get is the blocking verb that the future describes: it claims the blocking mode,
// taking over from async mode if the client allows it. On a started and unfinished
// future it is an *ExecModeError; on a settled one the outcome.
func (f *Future[T]) Get(ctx context.Context) (T, error) {
	f.mu.Lock()
	refuse := f.started && !f.settled && f.core != nil
	f.mu.Unlock()
	if refuse {
		return *new(T), &ExecModeError{Op: f.op.String(), Locked: ExecAsync, Attempted: ExecBlocking, Pending: true}
	}
	return f.await(ctx, session.FaceBlocking)
}

func (f *Future[T]) await(ctx context.Context, face session.Face) (T, error) {
	if !f.take() {
		return f.wait(ctx)
	}
	t, err := f.begin(ctx, face)
	if err != nil {
		f.settle(*new(T), err)
		return *new(T), err
	}
	value, err := f.run(ctx, t)
	f.settle(value, abandoned(ctx, err))
	return value, err
}

// wait returns the outcome of a future that somebody else runs.
func (f *Future[T]) wait(ctx context.Context) (T, error) {
	value, err := f.Result()
	if errors.Is(err, ErrPending) {
		select {
		case <-f.done:
			value, err = f.value, f.err
		case <-ctx.Done():
			return *new(T), fmt.Errorf("await: %w", context.Cause(ctx))
		}
	}
	if errors.Is(err, ErrAbandoned) && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, context.Cause(ctx)) // the caller's own ctx ended, too
	}
	return value, err
}

// Done is closed when the future is settled. It starts nothing.
func (f *Future[T]) Done() <-chan struct{} { return f.done }

// Result is the outcome of a settled future, [ErrPending] before. It starts nothing.
func (f *Future[T]) Result() (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	default:
		return *new(T), ErrPending
	}
}

// take makes the caller the one who runs the future.
func (f *Future[T]) take() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started {
		return false
	}
	f.started = true
	return true
}

func (f *Future[T]) begin(ctx context.Context, face session.Face) (*session.Turn, error) {
	if f.core == nil {
		return nil, nil
	}
	return f.core.begin(ctx, face, f.op, f.size)
}

// settle keeps the first outcome.
func (f *Future[T]) settle(value T, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settled {
		return
	}
	f.settled = true
	f.value, f.err = value, err
	close(f.done)
}

// abandoned is the outcome that others see when the runner's own ctx ended: an error
// of their own, not somebody else's cancellation.
func abandoned(ctx context.Context, err error) error {
	if ownCtx(ctx, err) {
		return fmt.Errorf("%w: %v", ErrAbandoned, err)
	}
	return err
}
