package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/openenv-go/openenv/internal/wire"
)

// The reasons why a call got no reply, or no turn.
var (
	ErrClosed         = errors.New("client is closed")
	ErrMessageTimeout = errors.New("no reply within the message timeout")
	ErrDisconnected   = errors.New("session was disconnected")
	ErrReplyLost      = errors.New("the reply was lost with the connection")
	// ErrOtherServer is matched by what Dial, or a request over HTTP, returns when the
	// server that answered is not the one that has made the session.
	ErrOtherServer = errors.New("another server answered")
	// ErrSelfCall refuses an interceptor that calls the operation it wraps.
	ErrSelfCall = errors.New("an interceptor called the operation it wraps")
)

// ModeError is a call with the wrong face. Nothing was sent.
type ModeError struct {
	Locked, Tried Face
	Pending       bool // refused only because started futures are unfinished
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s call on a session locked to %s", e.Tried, e.Locked)
}

// LostError says that the episode is gone.
type LostError struct {
	Cause error
	Sent  bool // the failing request itself had been written, at least in part
}

func (e *LostError) Error() string { return "session lost: " + e.Cause.Error() }
func (e *LostError) Unwrap() error { return e.Cause }

// DoubtError says that a request was written, that its session is still there, and that
// it is not known whether the request was applied: its reply was lost with the socket.
type DoubtError struct {
	Op            Op
	Cause         error
	Before, After *State // nil: not known
}

func (e *DoubtError) Error() string { return "reply lost: " + e.Cause.Error() }
func (e *DoubtError) Unwrap() error { return e.Cause }

// ReplyLostError says that a request was applied, and that its reply is lost. State is
// where the episode is now; nil: not known.
type ReplyLostError struct {
	Op    Op
	Cause error
	State *State
}

func (e *ReplyLostError) Error() string { return "applied, and its reply lost: " + e.Cause.Error() }
func (e *ReplyLostError) Unwrap() error { return e.Cause }

// RefusedError is a server that does not give a session: its error frame came
// unasked, or in place of the first reply.
type RefusedError struct{ Frame wire.Error }

func (e *RefusedError) Error() string { return "refused: " + e.Frame.Message }

// Is matches ErrUnknownSession when the server said that it does not know the session
// to attach to (http_server.py, websocket_endpoint).
func (e *RefusedError) Is(target error) bool {
	return target == ErrUnknownSession && e.Frame.Code == wire.CodeSession && strings.HasPrefix(e.Frame.Message, unknownSession)
}

// DialError is a connection that could not be made.
type DialError struct{ Err error }

func (e *DialError) Error() string { return e.Err.Error() }
func (e *DialError) Unwrap() error { return e.Err }

// ConnError is a connection that ended under a request while no episode was at stake.
type ConnError struct{ Err error }

func (e *ConnError) Error() string { return e.Err.Error() }
func (e *ConnError) Unwrap() error { return e.Err }

// FrameError is a message that cannot be the reply that was due.
type FrameError struct {
	Err      error
	Received string // its beginning
}

func (e *FrameError) Error() string { return e.Err.Error() + ": received " + e.Received }
func (e *FrameError) Unwrap() error { return e.Err }

// abandonError is the cause of a socket that was dropped because its caller left.
// It does not match the caller's ctx error: that belongs to that caller alone.
type abandonError struct {
	op  Op
	why string
}

func (e *abandonError) Error() string { return fmt.Sprintf("%s was cancelled: %s", e.op, e.why) }
