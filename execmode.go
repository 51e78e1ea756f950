package openenv

import (
	"fmt"

	"github.com/openenv-go/openenv/internal/session"
)

// ExecMode is the face by which a client is used. The first call that runs claims
// it, before any I/O; describing a future, Connect, NewSession, Disconnect, Close and
// the HTTP information calls claim nothing.
//
// A client in async mode may be taken over by blocking calls, once, when no future
// of it is started and unfinished. The other way is never open.
type ExecMode uint8

// The execution modes.
const (
	ExecNone     = ExecMode(session.FaceNone)
	ExecBlocking = ExecMode(session.FaceBlocking)
	ExecAsync    = ExecMode(session.FaceAsync)
)

func (m ExecMode) String() string { return session.Face(m).String() }

// ExecModeError refuses a call with the wrong face. Nothing was sent.
type ExecModeError struct {
	Op        string
	URL       string
	Locked    ExecMode // the mode that the client is in
	Attempted ExecMode // the mode of the refused call
	Pending   bool     // refused only because a started future is unfinished
}

func (e *ExecModeError) Error() string {
	if e.Pending {
		return fmt.Sprintf("%s %s: %s call while a started future is unfinished; nothing was sent: await it first, or use NewSession", e.Op, e.URL, e.Attempted)
	}
	return fmt.Sprintf("%s %s: %s call on a client in %s mode; nothing was sent: use a separate client or NewSession", e.Op, e.URL, e.Attempted, e.Locked)
}
