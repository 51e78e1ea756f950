package openenv

import "fmt"

// SessionLostError says that the episode is gone: the session it lived in has ended,
// or the call itself was cut off. Only Reset starts a new episode; for a client that
// never reset, Connect starts a new session.
type SessionLostError struct {
	Op    string
	URL   string
	Sent  bool // this call's request had been written, at least in part
	Cause error
}

func (e *SessionLostError) Error() string {
	if e.Sent {
		return fmt.Sprintf("%s %s: session lost while waiting for the reply: %v", e.Op, e.URL, e.Cause)
	}
	return fmt.Sprintf("%s %s: session lost, reset to start a new episode: %v", e.Op, e.URL, e.Cause)
}
func (e *SessionLostError) Unwrap() error { return e.Cause }

// StepInDoubtError says that a Reset, a Step or a tool call may have been applied: its
// request was written and its reply was lost. The session is still there and nothing
// was sent again. Before and After are what the server said of the episode before the
// request and after it; nil when that is not known. A caller that cannot tell from them
// what happened calls Reset.
type StepInDoubtError struct {
	Op            string
	URL           string
	Before, After *State
	Cause         error
}

// ReplyLostError says that a Reset, a Step or a tool call was applied, and that its
// reply is lost. State is where the episode is now; nil when it is not known. The
// episode can go on.
type ReplyLostError struct {
	Op    string
	URL   string
	State *State
	Cause error
}

func (e *ReplyLostError) Error() string {
	text := fmt.Sprintf("%s %s: applied, its reply is lost", e.Op, e.URL)
	if e.State != nil {
		text += fmt.Sprintf(" (steps %d)", e.State.StepCount)
	}
	return fmt.Sprintf("%s: %v", text, e.Cause)
}
func (e *ReplyLostError) Unwrap() error { return e.Cause }

func (e *StepInDoubtError) Error() string {
	text := fmt.Sprintf("%s %s: in doubt, the reply was lost", e.Op, e.URL)
	if e.Before != nil && e.After != nil {
		text += fmt.Sprintf(" (steps before %d, after %d)", e.Before.StepCount, e.After.StepCount)
	}
	return fmt.Sprintf("%s: %v", text, e.Cause)
}
func (e *StepInDoubtError) Unwrap() error { return e.Cause }
