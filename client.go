package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
)

// Client is one session with an environment server. Its verbs block: they do their
// work on the caller's goroutine, and their ctx bounds the whole call. When ctx ends
// the call returns at once; see [WithKeepOnCancel] for what becomes of the session.
//
// All methods are safe for concurrent use. Reset, Step and State take turns, in the
// order of the calls. Whoever made the client closes it; a client that is forgotten
// is closed by the garbage collector, with a warning to [WithLogger].
type Client[A, O, S any] struct {
	core   *core
	spec   Spec[A, O, S]
	async  Async[A, O, S]
	parent any // keeps the parent, which closes its children, from being forgotten first
}

// New makes a client of the server at baseURL: http, https, ws or wss, or host:port,
// with a path prefix and a query if need be. It does no I/O. An empty baseURL needs
// [WithProvider]. The error names the option or the part of the address that is wrong.
func New[A, O, S any](spec Spec[A, O, S], baseURL string, opts ...Option) (*Client[A, O, S], error) {
	set, err := newSettings(opts)
	if err != nil {
		return nil, fmt.Errorf("openenv.New: %w", err)
	}
	h, err := newHost(baseURL, set)
	if err != nil {
		return nil, fmt.Errorf("openenv.New: %w", err)
	}
	return newClient(spec, newCore(set, h, nil), nil), nil
}

func newClient[A, O, S any](spec Spec[A, O, S], co *core, parent any) *Client[A, O, S] {
	c := &Client[A, O, S]{core: co, spec: spec, parent: parent}
	c.async.c = c
	if !inBubble() {
		runtime.AddCleanup(c, (*core).forgotten, co)
	}
	return c
}

// inBubble reports whether the clock is that of a testing/synctest bubble, which by
// its documentation starts at the year 2000. Cleanups run outside of the bubble, and
// there the runtime ends the process when they touch a channel of it. A client that a
// test forgets in a bubble is found by the bubble itself, whose goroutines must end.
func inBubble() bool { return time.Now().Before(time.Unix(1<<30, 0)) } // 2004

// Connect opens the session and returns when the server has admitted it; a full
// server is [ErrCapacity]. Without Connect the first verb opens it. On an open
// session it does nothing. A client whose server comes from its provider starts the
// provider first, and opens again after Close.
func (c *Client[A, O, S]) Connect(ctx context.Context) error {
	defer runtime.KeepAlive(c) // it is not forgotten while somebody waits for it
	return c.core.connect(ctx)
}

// Reset starts an episode.
func (c *Client[A, O, S]) Reset(ctx context.Context, params ...ResetParam) (StepResult[O], error) {
	req, err := encodeReset(params)
	if err != nil {
		return StepResult[O]{}, err
	}
	defer wire.PutBuffer(req)
	return c.observe(ctx, session.OpReset, req)
}

// Step takes an action.
func (c *Client[A, O, S]) Step(ctx context.Context, action A) (StepResult[O], error) {
	req, err := c.encodeStep(action)
	if err != nil {
		return StepResult[O]{}, err
	}
	defer wire.PutBuffer(req)
	return c.observe(ctx, session.OpStep, req)
}

// State returns the environment's state. It changes nothing, so a State call whose
// caller leaves costs nothing but its late reply.
func (c *Client[A, O, S]) State(ctx context.Context) (S, error) {
	var zero S
	t, err := c.core.begin(ctx, session.FaceBlocking, session.OpState, len(wire.StateRequest))
	if err != nil {
		return zero, err
	}
	return c.finishState(ctx, t)
}

// Disconnect ends the session and its socket, not the client: the next Reset opens a
// new one. It returns when the socket is closed or ctx ends. Calls that wait for a
// reply fail with a *SessionLostError.
func (c *Client[A, O, S]) Disconnect(ctx context.Context) error {
	defer runtime.KeepAlive(c)
	return c.core.convert("disconnect", c.core.sess.Disconnect(ctx))
}

// Close ends the client for good: its children in parallel, its socket, and the
// provider when it is the client that started the server. It needs no ctx: it is
// bounded by the close timeout and the stop timeout. Waiting calls, and every later
// one, fail with [ErrClosed]. It is idempotent; after an error that matches
// [ErrCleanupPending] a further Close tries again.
func (c *Client[A, O, S]) Close() error {
	defer runtime.KeepAlive(c)
	return c.core.close()
}

// BaseURL is the server's address as an http or https URL, without user and query.
// It is empty while a provider has not started the server, and after it was stopped.
func (c *Client[A, O, S]) BaseURL() string { return c.core.baseURL() }

// SessionID is the server's identifier of a session made over HTTP, empty until there
// is one; see [WithManagedSession]. A session that lives on its socket has none in this
// protocol.
func (c *Client[A, O, S]) SessionID() string { return c.core.sessionID() }

// Mode is the mode fixed when the client was made.
func (c *Client[A, O, S]) Mode() Mode { return c.core.set.mode }

// ExecMode is the face that the client is locked to, ExecNone before the first call.
func (c *Client[A, O, S]) ExecMode() ExecMode { return c.core.face() }

// Async is the client's other face: the same verbs, described. It is always the same
// pointer.
func (c *Client[A, O, S]) Async() *Async[A, O, S] { return &c.async }

func (c *Client[A, O, S]) sessionCore() *core { return c.core }

func encodeReset(params []ResetParam) (*bytes.Buffer, error) {
	data, err := resetData(params)
	if err != nil {
		return nil, fmt.Errorf("reset: %w", err)
	}
	return encode("reset", wire.TypeReset, data)
}

func (c *Client[A, O, S]) encodeStep(action A) (*bytes.Buffer, error) {
	if c.spec.EncodeAction == nil {
		return encode("step", wire.TypeStep, action)
	}
	v, err := c.spec.EncodeAction(action)
	if err != nil {
		return nil, fmt.Errorf("step: encode action: %w", err)
	}
	return encode("step", wire.TypeStep, v)
}

func encode(op, typ string, v any) (*bytes.Buffer, error) {
	buf := wire.GetBuffer()
	if err := wire.AppendFrame(buf, typ, v); err != nil {
		wire.PutBuffer(buf)
		return nil, fmt.Errorf("%s: encode: %w", op, err)
	}
	return buf, nil
}

// observe makes a blocking reset or step of an encoded request.
func (c *Client[A, O, S]) observe(ctx context.Context, op session.Op, req *bytes.Buffer) (StepResult[O], error) {
	t, err := c.core.begin(ctx, session.FaceBlocking, op, req.Len())
	if err != nil {
		return StepResult[O]{}, err
	}
	return c.finishObserve(ctx, t, op, req.Bytes())
}

// finishObserve makes the round trip of a turn that was taken and decodes the reply.
func (c *Client[A, O, S]) finishObserve(ctx context.Context, t *session.Turn, op session.Op, req []byte) (StepResult[O], error) {
	reply, err := c.core.perform(ctx, t, op, req)
	if err != nil {
		return StepResult[O]{}, err
	}
	defer wire.PutBuffer(reply)
	res, err := c.decodeResult(reply.Bytes())
	if err != nil {
		return StepResult[O]{}, c.core.decodeError(op.String(), reply, err)
	}
	return res, nil
}

func (c *Client[A, O, S]) decodeResult(frame []byte) (StepResult[O], error) {
	if c.spec.DecodeResult != nil {
		data, err := wire.Data(frame)
		if err != nil {
			return StepResult[O]{}, err
		}
		return c.spec.DecodeResult(json.RawMessage(data))
	}
	obs, err := wire.DecodeObservation[O](frame, wire.Numbers(c.core.set.numbers))
	return StepResult[O](obs), err
}

func (c *Client[A, O, S]) finishState(ctx context.Context, t *session.Turn) (S, error) {
	var zero S
	reply, err := c.core.perform(ctx, t, session.OpState, wire.StateRequest)
	if err != nil {
		return zero, err
	}
	defer wire.PutBuffer(reply)
	state, err := c.decodeState(reply.Bytes())
	if err != nil {
		return zero, c.core.decodeError("state", reply, err)
	}
	return state, nil
}

func (c *Client[A, O, S]) decodeState(frame []byte) (S, error) {
	if c.spec.DecodeState != nil {
		data, err := wire.Data(frame)
		if err != nil {
			var zero S
			return zero, err
		}
		return c.spec.DecodeState(json.RawMessage(data))
	}
	return wire.DecodeState[S](frame, wire.Numbers(c.core.set.numbers))
}
