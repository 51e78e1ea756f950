package openenv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/openenv-go/openenv/internal/session"
)

// Future is a call that was described and may run: at most once, when it is first
// awaited, started or got. Its outcome, an error included, is kept. All methods are
// safe for concurrent use.
type Future[T any] struct {
	job[T]

	mu    sync.Mutex
	state futureState
	done  chan struct{} // closed after value and err were set
	value T
	err   error
}

type futureState uint8

const (
	futureNew futureState = iota
	futureRunning
	futureSettled
)

// job is what a future runs.
type job[T any] struct {
	core *core // who owns the goroutine of a started future; nil: nobody
	free bool  // takes no turn and claims nothing
	op   session.Op
	size int
	run  func(ctx context.Context, t *session.Turn) (T, error) // t is nil for a free job
}

func newFuture[T any](j job[T]) *Future[T] {
	return &Future[T]{job: j, done: make(chan struct{})}
}

// Lazy makes a future of any code, a bootstrap for instance. It claims no client.
func Lazy[T any](run func(context.Context) (T, error)) *Future[T] { return free(nil, run) }

func free[T any](owner *core, run func(context.Context) (T, error)) *Future[T] {
	return newFuture(job[T]{core: owner, free: true, run: func(ctx context.Context, _ *session.Turn) (T, error) { return run(ctx) }})
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
		defer runtime.KeepAlive(s)
		defer t.Finish()
		if err := t.Wait(ctx); err != nil {
			return *new(T), c.convert(session.OpDefer.String(), err)
		}
		inner, cancel := context.WithCancelCause(t.Enter(ctx))
		defer cancel(nil)
		defer context.AfterFunc(t.Base(), func() { cancel(ErrClosed) })()
		value, err := run(inner)
		if ctx.Err() == nil && t.Base().Err() != nil && errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) {
			err = fmt.Errorf("%w: %w", c.convert(session.OpDefer.String(), session.ErrClosed), err)
		}
		return value, err
	}})
}

// Start runs the future on a goroutine that its client owns, after taking its place
// in the client's queue: futures started one after the other reach the server in that
// order. ctx bounds the run. A refused claim is the outcome. On a future that was
// started it does nothing. It returns f.
func (f *Future[T]) Start(ctx context.Context) *Future[T] {
	if f.take() != futureNew {
		return f
	}
	if f.free {
		// On a closed client, too, whose Connect may open it again.
		if f.core == nil || !f.core.sess.Go(func() { _, _ = f.execute(ctx, nil) }) {
			go func() { _, _ = f.execute(ctx, nil) }()
		}
		return f
	}
	t, err := f.core.begin(ctx, session.FaceAsync, f.op, f.size)
	if err != nil {
		f.settle(*new(T), err)
		return f
	}
	closed := func() { f.settle(*new(T), f.core.convert(f.op.String(), session.ErrClosed)) }
	forget := context.AfterFunc(t.Base(), closed) // though a function of the user goes on
	if !f.core.sess.Go(func() { defer forget(); growStack(); _, _ = f.execute(ctx, t) }) {
		t.Finish()
		closed()
	}
	return f
}

// execute runs the future and settles it, even if run does not return.
func (f *Future[T]) execute(ctx context.Context, t *session.Turn) (T, error) {
	returned := false
	defer func() {
		if !returned {
			f.settle(*new(T), errNoOutcome)
		}
	}()
	run := f.run
	f.run = nil // whoever keeps the future keeps its outcome, not its request
	value, err := run(ctx, t)
	returned = true
	f.settle(value, abandoned(ctx, err))
	return value, err
}

// errNoOutcome is the outcome of code that panicked or ended its goroutine.
var errNoOutcome = errors.New("future has no outcome: its function did not return")

// Await returns the outcome. It runs a future that was not started on the caller's
// goroutine, with ctx bounding the run; it waits for one that was, with ctx bounding
// the wait only.
func (f *Future[T]) Await(ctx context.Context) (T, error) {
	if f.take() == futureNew {
		return f.here(ctx, session.FaceAsync)
	}
	return f.wait(ctx)
}

// Get is the blocking verb that the future describes: it claims the blocking mode,
// taking over from async mode if the client allows it. On a started and unfinished
// future it is an *ExecModeError; on a settled one the outcome. A future that claims
// nothing has no mode: Get is Await.
func (f *Future[T]) Get(ctx context.Context) (T, error) {
	switch state := f.take(); {
	case state == futureNew:
		return f.here(ctx, session.FaceBlocking)
	case state == futureRunning && !f.free:
		return *new(T), &ExecModeError{Op: f.op.String(), URL: f.core.socketURL(), Locked: f.core.face(), Attempted: ExecBlocking, Pending: true}
	}
	return f.wait(ctx)
}

// here runs the future on the caller's goroutine.
func (f *Future[T]) here(ctx context.Context, face session.Face) (T, error) {
	if f.free {
		return f.execute(ctx, nil)
	}
	t, err := f.core.begin(ctx, face, f.op, f.size)
	if err != nil {
		f.settle(*new(T), err)
		return *new(T), err
	}
	return f.execute(ctx, t)
}

// wait returns the outcome of a future that somebody else runs.
func (f *Future[T]) wait(ctx context.Context) (T, error) {
	value, err := f.Result()
	if errors.Is(err, ErrPending) {
		select {
		case <-f.done:
			value, err = f.value, f.err
		case <-ctx.Done():
			return *new(T), fmt.Errorf("await: %w", ctxError(ctx))
		}
	}
	if errors.Is(err, ErrAbandoned) && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctxError(ctx)) // the caller's own ctx ended, too
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

// take returns the state of the future, and makes the caller the one who runs it if
// it is new.
func (f *Future[T]) take() futureState {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.state
	if state == futureNew {
		f.state = futureRunning
	}
	return state
}

// settle keeps the first outcome.
func (f *Future[T]) settle(value T, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == futureSettled {
		return
	}
	f.state = futureSettled
	f.value, f.err = value, err
	close(f.done)
}

// failed is a future whose outcome is known.
func failed[T any](err error) *Future[T] {
	f := newFuture(job[T]{free: true})
	f.settle(*new(T), err)
	return f
}

// abandoned is the outcome that others see when the runner's own ctx ended: an error
// of their own, not somebody else's cancellation.
func abandoned(ctx context.Context, err error) error {
	if ownCtx(ctx, err) {
		return fmt.Errorf("%w: %s", ErrAbandoned, err.Error())
	}
	return err
}
