package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/openenv-go/openenv/internal/rpc"
	"github.com/openenv-go/openenv/internal/wire"
)

// ErrUnknownSession is a session made over HTTP that the server does not know any
// more, or never did.
var ErrUnknownSession = errors.New("server does not know the session")

// Managed is the origin of a session that is made over HTTP (core/env_server/
// http_server.py, openenv/session/create) and outlives its sockets.
type Managed struct {
	call func(ctx context.Context, method string, params any) (json.RawMessage, error)

	optional func(error) bool // nil: a session that cannot be made is an error

	mu sync.Mutex
	id string // empty: there is no session
}

// NewManaged makes an origin that talks to the server through call, whose error is an
// *rpc.Error when the server answered with one.
func NewManaged(call func(ctx context.Context, method string, params any) (json.RawMessage, error)) *Managed {
	return &Managed{call: call}
}

// ID is the server's identifier of the session; empty while there is none.
func (m *Managed) ID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// Optional lets sessions be ordinary ones on a server that makes none over HTTP, which
// no tells from the error of the attempt. It is called before the origin is used.
func (m *Managed) Optional(no func(error) bool) { m.optional = no }

// Adopt makes a session that is there already the origin's own.
func (m *Managed) Adopt(id string) { m.set(id) }

func (m *Managed) set(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = id
}

// Acquire makes the session if there is none. A server without room is a *RefusedError,
// as on a socket.
func (m *Managed) Acquire(ctx context.Context) (url.Values, error) {
	id := m.ID()
	if id == "" {
		// The answer to a request that is under way is waited for a little: without its
		// identifier the session could not be ended.
		lingering, stop := linger(ctx, creationGrace)
		defer stop()
		if ctx.Err() != nil {
			return nil, left(ctx)
		}
		result, err := m.call(lingering, "openenv/session/create", map[string]any{})
		if err != nil && m.optional != nil && m.optional(err) {
			return url.Values{}, nil
		}
		if err != nil {
			return nil, refusedCreation(err)
		}
		var made struct {
			SessionID string `json:"session_id"`
		}
		if err := wire.Unmarshal(result, &made, wire.Float64); err != nil || made.SessionID == "" {
			return nil, &FrameError{Err: errors.New("openenv/session/create answered without a session_id"), Received: wire.Excerpt(result)}
		}
		id = made.SessionID
		m.set(id)
	}
	return url.Values{"session_id": {id}}, nil
}

// creationGrace is how long the answer to a creation is waited for when nobody wants
// the session any more.
const creationGrace = time.Second

// linger returns a ctx that ends d after ctx does.
func linger(ctx context.Context, d time.Duration) (context.Context, func()) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var timer *time.Timer
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		timer = time.AfterFunc(d, func() { cancel(left(ctx)) })
	})
	return later, func() {
		if !stop() {
			<-over
			timer.Stop()
		}
		cancel(nil)
	}
}

// refusedCreation gives a refusal the form that it has on a socket.
func refusedCreation(err error) error {
	answered, ok := errors.AsType[*rpc.Error](err)
	if !ok || answered.Code != rpc.CodeServer {
		return err
	}
	frame := wire.Error{Code: wire.CodeSession, Message: answered.Message}
	if wire.Unmarshal(answered.Data, &frame.Details, wire.Float64) != nil {
		frame.Details = nil
	}
	switch {
	case has(frame.Details, "max_sessions"):
		frame.Code = wire.CodeCapacityReached
	case has(frame.Details, "factory_name"):
		frame.Code = wire.CodeFactory
	}
	return &RefusedError{Frame: frame}
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

// Lost keeps the session, unless the server said that it has none.
func (m *Managed) Lost(cause error) Fate {
	if m.ID() == "" {
		return FateGone // an ordinary session
	}
	if errors.Is(cause, ErrUnknownSession) {
		m.set("")
		return FateGone
	}
	if refused, ok := errors.AsType[*RefusedError](cause); ok && !alreadyAttached(refused.Frame) {
		m.set("")
		return FateGone
	}
	return FateKept
}

// alreadyAttached reports a session that is there and has a socket which the server
// takes to be alive (http_server.py, websocket_endpoint).
func alreadyAttached(f wire.Error) bool {
	return f.Code == wire.CodeSession && strings.Contains(f.Message, "already has an attached WebSocket")
}

// closePause is the time between two questions whether a session that was told to
// close has closed.
const closePause = 5 * time.Millisecond

// Release ends the session on the server and returns when its slot is free: a session
// whose socket is just going away is only marked at first.
func (m *Managed) Release(ctx context.Context) error {
	id := m.ID()
	if id == "" {
		return nil
	}
	m.set("")
	for pause := closePause; ; pause *= 2 {
		result, err := m.call(ctx, "openenv/session/close", map[string]any{"session_id": id})
		switch {
		case IsUnknown(err):
			return nil
		case errors.Is(err, ErrOtherServer): // the next answer may come from the right one
		case err != nil:
			return fmt.Errorf("openenv/session/close: %w", err)
		case !closing(result):
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return left(ctx)
		}
	}
}

// closing reports that a session is only marked, because it has a socket.
func closing(result json.RawMessage) bool {
	var answer struct {
		Closing bool `json:"closing"`
	}
	return wire.Unmarshal(result, &answer, wire.Float64) == nil && answer.Closing
}

// unknownSession is how servers begin to say that they do not know a session.
const unknownSession = "Unknown session_id"

// IsUnknown reports whether a server answered that it does not know the session.
func IsUnknown(err error) bool {
	answered, ok := errors.AsType[*rpc.Error](err)
	return ok && answered.Code == rpc.CodeInvalidParams && strings.HasPrefix(answered.Message, unknownSession)
}
