package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openenv-go/openenv"
)

// Codes of failures that did not come from the server as an error frame; those
// have the protocol's codes.
const (
	failedBadLine     = "BAD_LINE"
	failedUnreachable = "UNREACHABLE"
	failedLost        = "SESSION_LOST"
	failedReplyLost   = "REPLY_LOST"
	failedInDoubt     = "IN_DOUBT"
	failedTimeout     = "TIMEOUT"
	failedInterrupted = "INTERRUPTED"
	failedBadReply    = "BAD_REPLY"
	failedOther       = "FAILED"
)

const failureCodes = `BAD_LINE       the line is not understood; nothing was sent
  UNREACHABLE    the server cannot be reached or refused the connection
  SESSION_LOST   the episode is gone with its session
  REPLY_LOST     the request was applied and its reply is lost; the episode goes on
  IN_DOUBT       the request may have been applied: its reply is lost
  TIMEOUT        no reply came in time
  INTERRUPTED    Ctrl-C ended the step
  BAD_REPLY      the reply cannot be used
  FAILED         anything else`

// failure is an error as play shows it.
type failure struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Fields  []failedField   `json:"fields,omitempty"`
	Details json.RawMessage `json:"details,omitempty"` // what else the server's frame has
	Hint    string          `json:"hint,omitempty"`
}

// failedField is what is wrong with one field of an action, and where it is.
type failedField struct {
	Loc  []any  `json:"loc"`
	Type string `json:"type"`
	Msg  string `json:"msg"`
}

const resetHint = "reset starts a new episode"

// describe makes a failure of an operation's error.
func describe(op string, err error) failure {
	if server, ok := errors.AsType[*openenv.ServerError](err); ok && !isA[*openenv.SessionLostError](err) && !isA[*openenv.ReplyLostError](err) {
		return describeServer(server)
	}
	f := failure{Code: failedOther, Message: oneLine(err.Error())}
	lost, isLost := errors.AsType[*openenv.SessionLostError](err)
	switch {
	case isA[*lineError](err):
		f.Code = failedBadLine
	case errors.Is(err, errInterrupted):
		f.Code, f.Message = failedInterrupted, op+" was interrupted"
		if op == opStep {
			f.Hint = resetHint
		}
	case isLost:
		f.Code, f.Hint = failedLost, resetHint
		f.Message = oneLine("session lost: " + lost.Cause.Error())
	case isA[*openenv.ReplyLostError](err):
		f.Code, f.Hint = failedReplyLost, "the episode goes on, state shows where it is"
	case isA[*openenv.StepInDoubtError](err):
		f.Code, f.Hint = failedInDoubt, "state shows where the episode is, "+resetHint
	case isTimeout(err):
		f.Code, f.Hint = failedTimeout, resetHint // the client has dropped the session
	case isA[*openenv.ConnectError](err):
		f.Code = failedUnreachable
	case isA[*openenv.DecodeError](err):
		f.Code = failedBadReply
	}
	return f
}

func describeServer(err *openenv.ServerError) failure {
	f := failure{Code: string(err.Code), Message: err.Message}
	for _, field := range err.Fields() {
		f.Fields = append(f.Fields, failedField{Loc: field.Loc, Type: field.Type, Msg: field.Msg})
	}
	rest := make(openenv.Object)
	for key, value := range err.Details {
		if key != "errors" || len(f.Fields) == 0 {
			rest[key] = value
		}
	}
	if len(rest) > 0 {
		f.Details = compact(rest)
	}
	return f
}

// where is a location as people write it: "path.0.x", or nothing for the whole.
func (f failedField) where() string {
	parts := make([]string, len(f.Loc))
	for i, part := range f.Loc {
		parts[i] = oneLine(fmt.Sprint(part))
	}
	return strings.Join(parts, ".")
}
