package openenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
)

// Call is a round trip as an interceptor sees it. Request and Reply are the raw
// frames, or JSON-RPC over HTTP for tools: read-only, and valid until the interceptor
// returns. A JSON-RPC request names its session, and is there once next has returned.
type Call struct {
	Op        string // reset, step, state, tool call, tool list
	SessionID string // see [Client.SessionID]
	Attempt   int    // 1 for the first time the request is made
	Request   []byte
	Reply     []byte // nil until next has returned without an I/O error
	Started   time.Time
	Sent      time.Time
	Received  time.Time
}

// Interceptor runs around a round trip. It must call next at most once, and calls it
// once for the call to succeed; next returns what the round trip returned, a
// *ServerError for an error frame included, and a failure of next is one of the call
// even when the interceptor returns nil. The ctx it is given holds the call's
// turn: other verbs of the same client, called with it, run inside this turn and
// claim nothing. The operation that it wraps is refused in there.
type Interceptor func(ctx context.Context, call *Call, next func(context.Context) error) error

var (
	errNoNext    = errors.New("interceptor returned without an error and without calling next")
	errNextAgain = errors.New("interceptor called next twice, or after it had returned")
)

// roundTrip makes the exchange and turns an error frame into an error.
func (c *core) roundTrip(ctx context.Context, t *session.Turn, x *session.Exchange) error {
	if err := c.sess.RoundTrip(ctx, t, x); err != nil {
		err = c.convert(x.Op.String(), err)
		if lost, ok := errors.AsType[*ReplyLostError](err); ok && lost.State == nil {
			lost.State = c.whereabouts(ctx, t)
		}
		return err
	}
	if x.Type != wire.TypeError {
		return nil
	}
	frame, err := wire.DecodeError(x.Reply.Bytes())
	if err != nil {
		return c.decodeError(x.Op.String(), x.Reply, err)
	}
	return c.frameError(ctx, t, x, frame)
}

// clockSlack is how much earlier than its client a server may find a deadline over.
const clockSlack = 2 * time.Second

// frameError is the error that an error frame stands for.
func (c *core) frameError(ctx context.Context, t *session.Turn, x *session.Exchange, frame wire.Error) error {
	op, url := x.Op.String(), c.socketURL()
	failed := serverError(op, url, frame)
	switch frame.Code {
	case wire.CodeReplyLost:
		return &ReplyLostError{Op: op, URL: url, State: c.whereabouts(ctx, t), Cause: failed}
	case wire.CodeCancelled:
		if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < clockSlack {
			<-ctx.Done() // the server's clock was the quicker one
			return c.convert(op, ctxError(ctx))
		}
	}
	return failed
}

// whereabouts asks for the state inside a turn; nil when there is no answer.
func (c *core) whereabouts(ctx context.Context, t *session.Turn) *State {
	x := session.Exchange{Op: session.OpState, Request: wire.StateRequest}
	if c.sess.RoundTrip(ctx, t, &x) != nil {
		return nil
	}
	defer wire.PutBuffer(x.Reply)
	if x.Type != wire.TypeState {
		return nil
	}
	state, err := wire.DecodeState[State](x.Reply.Bytes(), wire.Float64)
	if err != nil {
		return nil
	}
	return &state
}

// trip makes an exchange inside a turn that has come.
type trip func(ctx context.Context, t *session.Turn, x *session.Exchange) error

// perform makes the round trip of a turn and gives the turn back. The reply is the
// caller's.
func (c *core) perform(ctx context.Context, t *session.Turn, op session.Op, request []byte) (*bytes.Buffer, error) {
	return c.performBy(ctx, t, op, request, c.roundTrip)
}

func (c *core) performBy(ctx context.Context, t *session.Turn, op session.Op, request []byte, run trip) (*bytes.Buffer, error) {
	defer t.Finish()
	if err := t.Wait(ctx); err != nil {
		return nil, c.convert(op.String(), err)
	}
	x := session.Exchange{Op: op, Request: request}
	var err error
	if len(c.set.interceptors) == 0 {
		err = run(ctx, t, &x)
	} else {
		err = c.intercepted(ctx, t, &x, run)
	}
	if err != nil {
		wire.PutBuffer(x.Reply)
		return nil, err
	}
	return x.Reply, nil
}

func (c *core) intercepted(ctx context.Context, t *session.Turn, x *session.Exchange, run trip) error {
	call := &Call{Op: x.Op.String(), SessionID: c.sessionID(), Attempt: 1, Request: x.Request, Started: time.Now()}
	var (
		mu      sync.Mutex // held during the round trip: an interceptor that returns before it waits for it
		called  bool
		outcome error
	)
	next := func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if called {
			return errNextAgain
		}
		called = true
		outcome = run(ctx, t, x)
		call.Sent, call.Received = x.Sent, x.Received
		call.SessionID, call.Request = c.sessionID(), x.Request
		if x.Reply != nil {
			call.Reply = x.Reply.Bytes()
		}
		return outcome
	}
	for _, intercept := range slices.Backward(c.set.interceptors) {
		inner := next
		next = func(ctx context.Context) error { return intercept(ctx, call, inner) }
	}
	err := next(t.Enter(ctx))
	mu.Lock()
	defer mu.Unlock()
	switch {
	case err != nil:
		return err
	case !called:
		called = true // too late for a next that was kept
		return fmt.Errorf("%s %s: %w", call.Op, c.socketURL(), errNoNext)
	}
	return outcome // a failed round trip has no result, whatever the interceptor says
}

func (c *core) decodeError(op string, reply *bytes.Buffer, err error) error {
	return &DecodeError{Op: op, URL: c.socketURL(), Received: wire.Excerpt(reply.Bytes()), Err: err}
}
