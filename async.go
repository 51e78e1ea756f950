package openenv

import (
	"context"

	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
)

// Async is the second face of a client: the same verbs without a ctx, because they
// only describe. Nothing is sent and nothing is claimed until the future is touched.
type Async[A, O, S any] struct{ c *Client[A, O, S] }

// Sync leads back to the client, always the same pointer. It blocks nothing and
// forces nothing.
func (a *Async[A, O, S]) Sync() *Client[A, O, S] { return a.c }

// Reset describes [Client.Reset].
func (a *Async[A, O, S]) Reset(params ...ResetParam) *Future[StepResult[O]] {
	req, err := encodeReset(params)
	if err != nil {
		return failed[StepResult[O]](err)
	}
	return a.observe(session.OpReset, wire.Detach(req))
}

// Step describes [Client.Step]. The action is encoded now, so that the caller may
// reuse it; an action that cannot be encoded is the future's outcome.
func (a *Async[A, O, S]) Step(action A) *Future[StepResult[O]] {
	req, err := a.c.encodeStep(action)
	if err != nil {
		return failed[StepResult[O]](err)
	}
	return a.observe(session.OpStep, wire.Detach(req))
}

func (a *Async[A, O, S]) observe(op session.Op, req []byte) *Future[StepResult[O]] {
	return newFuture(job[StepResult[O]]{core: a.c.core, op: op, size: len(req),
		run: func(ctx context.Context, t *session.Turn) (StepResult[O], error) {
			return a.c.finishObserve(ctx, t, op, req)
		}})
}

// State describes [Client.State].
func (a *Async[A, O, S]) State() *Future[S] {
	return newFuture(job[S]{core: a.c.core, op: session.OpState, size: len(wire.StateRequest), run: a.c.finishState})
}

// Connect describes [Client.Connect]. Like the calls below it claims nothing and
// takes no turn.
func (a *Async[A, O, S]) Connect() *Future[struct{}] { return free(a.c.core, outcomeOf(a.c.Connect)) }

// NewSession describes [Client.NewSession]; any number may run in parallel.
func (a *Async[A, O, S]) NewSession() *Future[*Client[A, O, S]] {
	return free(a.c.core, a.c.NewSession)
}

// Disconnect describes [Client.Disconnect].
func (a *Async[A, O, S]) Disconnect() *Future[struct{}] {
	return free(a.c.core, outcomeOf(a.c.Disconnect))
}

// Close describes [Client.Close]. Close waits for the client's goroutines, so this
// one is not among them.
func (a *Async[A, O, S]) Close() *Future[struct{}] {
	return Lazy(outcomeOf(func(context.Context) error { return a.c.Close() }))
}

func outcomeOf(f func(context.Context) error) func(context.Context) (struct{}, error) {
	return func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }
}
