package openenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/openenv-go/openenv/internal/rpc"
	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
	"github.com/openenv-go/openenv/provider"
)

// Sentinels, for errors.Is.
var (
	// ErrClosed: the client was closed. Nothing was sent, or the call was under way
	// when Close came.
	ErrClosed = errors.New("client is closed")
	// ErrMessageTimeout: no reply came within the message timeout. The session is
	// dropped: the reply to a later request would otherwise be the late one.
	ErrMessageTimeout = errors.New("no reply within the message timeout")
	// ErrCapacity: the server has no free session. It matches a *ServerError.
	ErrCapacity = errors.New("server is at capacity")
	// ErrPending: the future has no outcome yet.
	ErrPending = errors.New("future is pending")
	// ErrAbandoned: the future's runner left before it had an outcome.
	ErrAbandoned = errors.New("future was abandoned by its runner")
	// ErrCleanupPending: a provider could not be stopped. Its handle is kept; the next
	// Close or Connect stops it first.
	ErrCleanupPending = errors.New("provider cleanup is pending")
	// ErrUnknownSession: the server does not know the session that was made on it: it has
	// ended it, was started anew, or another server answered. It is the cause of a
	// *SessionLostError, or of a *ConnectError where nothing was done in the session yet.
	ErrUnknownSession = errors.New("server does not know the session: it has ended there, or the server was started anew, or another server behind the same address answered")
	// ErrGone: the environment existed and does not any more. It is not retried.
	ErrGone = errors.New("environment is gone")
)

// ErrorCode is the code of an error frame, as on the wire.
type ErrorCode string

// The codes of the protocol.
const (
	CodeInvalidJSON     ErrorCode = wire.CodeInvalidJSON
	CodeUnknownType     ErrorCode = wire.CodeUnknownType
	CodeValidation      ErrorCode = wire.CodeValidation
	CodeExecution       ErrorCode = wire.CodeExecution
	CodeCapacityReached ErrorCode = wire.CodeCapacityReached
	CodeFactory         ErrorCode = wire.CodeFactory
	CodeSession         ErrorCode = wire.CodeSession
)

// ServerError is an error that the server sent. After CodeCapacityReached,
// CodeFactory and CodeSession there is no session; after the others it lives on.
type ServerError struct {
	Op      string
	URL     string
	Code    ErrorCode
	Message string
	Details Object // every other key of the frame
}

func (e *ServerError) Error() string {
	text := fmt.Sprintf("%s %s: server error %s: %s", e.Op, e.URL, e.Code, e.Message)
	if fields := e.Fields(); len(fields) > 0 {
		text += fmt.Sprintf(": %s", fields[0])
		if len(fields) > 1 {
			text += fmt.Sprintf(" (and %d more)", len(fields)-1)
		}
	}
	return text
}

// Is matches ErrCapacity by the code.
func (e *ServerError) Is(target error) bool {
	return target == ErrCapacity && e.Code == CodeCapacityReached
}

// FieldError is one entry of a validation error.
type FieldError struct {
	Type  string // such as missing, extra_forbidden, string_type
	Loc   []any  // keys and indexes that lead to the value
	Msg   string
	Input any
}

// String is "message: Field required".
func (f FieldError) String() string {
	if len(f.Loc) == 0 {
		return f.Msg
	}
	path := make([]string, len(f.Loc))
	for i, part := range f.Loc {
		path[i] = fmt.Sprint(part)
	}
	return strings.Join(path, ".") + ": " + f.Msg
}

// Fields returns the entries of a CodeValidation error, nil for others.
func (e *ServerError) Fields() []FieldError {
	list, _ := e.Details["errors"].([]any)
	var fields []FieldError
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		f := FieldError{Input: m["input"]}
		f.Type, _ = m["type"].(string)
		f.Msg, _ = m["msg"].(string)
		f.Loc, _ = m["loc"].([]any)
		fields = append(fields, f)
	}
	return fields
}

// ConnectError is a server that cannot be reached, or a connection or HTTP call
// that failed while no episode was at stake. Status is the HTTP status of a refused
// upgrade or call, 0 when there was none.
type ConnectError struct {
	Op     string
	URL    string
	Status int
	Err    error
}

func (e *ConnectError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.URL, e.Err) }
func (e *ConnectError) Unwrap() error { return e.Err }

// Is matches ErrGone when the server or the provider says that the environment is gone.
func (e *ConnectError) Is(target error) bool {
	return target == ErrGone && (e.Status == http.StatusGone || errors.Is(e.Err, provider.ErrGone))
}

// Side is an end of the connection.
type Side string

// The two ends.
const (
	SideLocal  Side = "local"
	SideRemote Side = "remote"
)

// MessageTooBigError says whose message limit was hit: this client's, by a message
// received (see [WithMaxMessageSize]), or the server's, by one sent.
type MessageTooBigError struct {
	Side  Side
	Limit int64 // of the local side; 0 when it is the server's, which does not tell
}

func (e *MessageTooBigError) Error() string {
	if e.Side == SideLocal {
		return fmt.Sprintf("message received exceeds the local limit of %d bytes", e.Limit)
	}
	return "message sent exceeds the server's limit"
}

// DecodeError is a reply that arrived and cannot be used. Received is its beginning.
type DecodeError struct {
	Op       string
	URL      string
	Received string
	Err      error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s %s: decode reply: %v: received %s", e.Op, e.URL, e.Err, e.Received)
}
func (e *DecodeError) Unwrap() error { return e.Err }

// convert turns an error of the layers below into one of this package's, once.
func (c *core) convert(op string, err error) error {
	converted := c.translate(op, err)
	var pending *cleanupError
	if errors.As(err, &pending) && !errors.Is(converted, ErrCleanupPending) {
		return errors.Join(converted, pending)
	}
	return converted
}

func (c *core) translate(op string, err error) error {
	var (
		lost     *session.LostError
		doubt    *session.DoubtError
		applied  *session.ReplyLostError
		refused  *session.RefusedError
		frame    *session.FrameError
		ended    *session.ConnError
		mode     *session.ModeError
		answered *rpc.Error
		connect  *ConnectError
	)
	url := c.socketURL()
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mode):
		return &ExecModeError{Op: op, URL: url, Locked: ExecMode(mode.Locked), Attempted: ExecMode(mode.Tried), Pending: mode.Pending}
	case errors.As(err, &doubt):
		return &StepInDoubtError{Op: op, URL: url, Before: stateOf(doubt.Before), After: stateOf(doubt.After), Cause: c.cause(doubt.Cause)}
	case errors.As(err, &applied):
		return &ReplyLostError{Op: op, URL: url, State: stateOf(applied.State), Cause: c.cause(applied.Cause)}
	case errors.As(err, &lost):
		return &SessionLostError{Op: op, URL: url, Sent: lost.Sent, Cause: c.cause(lost.Cause)}
	case errors.Is(err, session.ErrUnknownSession):
		return &ConnectError{Op: op, URL: url, Err: ErrUnknownSession}
	case errors.As(err, &refused):
		return serverError(op, url, refused.Frame)
	case errors.As(err, &frame):
		return &DecodeError{Op: op, URL: url, Received: frame.Received, Err: frame.Err}
	case errors.As(err, &ended):
		return &ConnectError{Op: op, URL: url, Err: c.cause(ended.Err)}
	case errors.As(err, &answered):
		return c.rpcError(op, answered)
	case errors.As(err, &connect):
		return &ConnectError{Op: op, URL: connect.URL, Status: connect.Status, Err: connect.Err}
	}
	return fmt.Errorf("%s %s: %w", op, url, c.cause(err))
}

// cause converts the reason inside an error.
func (c *core) cause(err error) error {
	var (
		closed  *wsock.CloseError
		refused *session.RefusedError
		frame   *session.FrameError
		connect *ConnectError
	)
	switch {
	case errors.Is(err, session.ErrClosed):
		return ErrClosed
	case errors.Is(err, session.ErrUnknownSession):
		return ErrUnknownSession
	case errors.Is(err, session.ErrMessageTimeout):
		return fmt.Errorf("%w of %v", ErrMessageTimeout, c.set.messageTimeout)
	case errors.Is(err, wsock.ErrTooBig):
		return &MessageTooBigError{Side: SideLocal, Limit: c.set.maxMessage}
	case errors.As(err, &closed) && closed.Code == wsock.CloseTooBig:
		return &MessageTooBigError{Side: SideRemote}
	case errors.As(err, &refused):
		return serverError("session", c.socketURL(), refused.Frame)
	case errors.As(err, &frame):
		return &DecodeError{Op: "session", URL: c.socketURL(), Received: frame.Received, Err: frame.Err}
	case errors.As(err, &connect):
		return connect
	}
	return err
}

func stateOf(s *session.State) *State {
	if s == nil {
		return nil
	}
	return &State{EpisodeID: s.EpisodeID, StepCount: s.StepCount}
}

func serverError(op, url string, f wire.Error) *ServerError {
	return &ServerError{Op: op, URL: url, Code: ErrorCode(f.Code), Message: f.Message, Details: f.Details}
}

// cleanupError is a provider that could not be stopped.
type cleanupError struct{ err error }

func (e *cleanupError) Error() string {
	return fmt.Sprintf("stop provider: %v: %v", ErrCleanupPending, e.err)
}
func (e *cleanupError) Unwrap() []error { return []error{ErrCleanupPending, e.err} }

// join adds what went wrong while cleaning up to the error that made it necessary,
// which stays as it is when nothing did.
func join(err, cleanup error) error {
	switch {
	case cleanup == nil:
		return err
	case err == nil:
		return cleanup
	}
	return errors.Join(err, cleanup)
}

// ctxError is the error of a caller whose ctx has ended. It matches the ctx's error
// and, where somebody gave one, its cause; a cause of this package stands alone.
func ctxError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) || errors.Is(cause, ErrMessageTimeout) || errors.Is(cause, session.ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// ownCtx reports whether err is the end of this very ctx.
func ownCtx(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}
