package mcp

import (
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Kind says what went wrong with a tool call.
type Kind string

// The kinds of the protocol (core/env_server/mcp_types.py, ToolErrorType), and
// KindSessionMissing, which is this package's.
const (
	KindToolNotFound   Kind = "tool_not_found"
	KindInvalidArgs    Kind = "invalid_args"
	KindExecution      Kind = "execution_error"
	KindTransport      Kind = "transport_error"
	KindTimeout        Kind = "timeout"
	KindSessionMissing Kind = "session_missing"
)

// ToolError is a tool call, or a list of tools, that failed. Err is the cause when
// there is one below it. For KindTransport that is a *openenv.ConnectError, a
// *openenv.StepInDoubtError or *openenv.ReplyLostError for a call that may have been, or
// was, made, or what else stood in the way; for KindTimeout of the client's own limit it
// matches openenv.ErrMessageTimeout.
type ToolError struct {
	Op      string // "call tool", "list tools" or "get tool"
	Tool    string // empty for a list
	URL     string
	Kind    Kind
	Message string
	Err     error

	// Result is the answer of a tool that said itself that it failed; nil otherwise.
	Result *sdk.CallToolResult
}

func (e *ToolError) Error() string {
	subject := e.Op
	if e.Tool != "" {
		subject = fmt.Sprintf("%s %q", e.Op, e.Tool)
	}
	return fmt.Sprintf("%s %s: %s: %s", subject, e.URL, e.Kind, e.Message)
}

func (e *ToolError) Unwrap() error { return e.Err }
