package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
)

// ErrNoTools is an environment without tools.
var ErrNoTools = errors.New("environment has no tools")

// stepError is a failure that the observation of a step tells of.
type stepError struct{ ToolFailure }

func (e *stepError) Error() string { return e.Message }

func (c *Client) invalid(tool string, err error) error {
	return &ToolError{Op: "call tool", Tool: tool, URL: c.BaseURL(), Kind: KindInvalidArgs, Message: err.Error(), Err: err}
}

// failure gives a failure its kind.
func (c *Client) failure(op, tool string, err error) error {
	failed := &ToolError{Op: op, Tool: tool, URL: c.BaseURL(), Message: err.Error(), Err: err}
	var (
		step     *stepError
		answered *openenv.RPCError
		server   *openenv.ServerError
		lost     *openenv.SessionLostError
	)
	switch {
	case errors.As(err, &step):
		failed.Kind, failed.Message, failed.Err = step.Kind, step.Message, nil
	case errors.As(err, &answered):
		failed.Kind, failed.Message = kindOf(answered), answered.Message
		if noTools(answered.Message) {
			failed.Err = errors.Join(ErrNoTools, err)
		}
	case errors.As(err, &server) && server.Code == openenv.CodeValidation && op == "list tools":
		failed.Kind, failed.Message, failed.Err = KindExecution, ErrNoTools.Error(), errors.Join(ErrNoTools, err)
	case errors.As(err, &server) && server.Code == openenv.CodeValidation:
		failed.Kind, failed.Message = KindInvalidArgs, server.Message
	case errors.As(err, &server) && server.Code == openenv.CodeExecution:
		failed.Kind, failed.Message = KindExecution, server.Message
	case errors.Is(err, ErrNoTools):
		failed.Kind = KindExecution
	case errors.As(err, &lost), errors.Is(err, openenv.ErrUnknownSession):
		failed.Kind = KindSessionMissing
	case errors.Is(err, openenv.ErrMessageTimeout):
		failed.Kind = KindTimeout
	case isCallers(err):
		return err
	default:
		failed.Kind = KindTransport
	}
	return failed
}

// isCallers reports an error that says nothing of the server or the way to it: the caller
// has left, or was not allowed to call. One from the transport can have such a cause.
func isCallers(err error) bool {
	if _, connect := errors.AsType[*openenv.ConnectError](err); connect {
		return false
	}
	_, refused := errors.AsType[*openenv.ExecModeError](err)
	return refused || errors.Is(err, openenv.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func noTools(message string) bool { return strings.Contains(message, "does not support MCP") }

// badArguments is how FastMCP begins to say what is wrong with arguments.
var badArguments = regexp.MustCompile(`^\d+ validation errors? for call\[`)

// kindOf is the kind of a server's error. This package's environments say it; the
// Python server's has to be told from its text, whose beginnings are FastMCP's
// (recorded from fastmcp 3.4). A tool's own message, which can be anything, comes behind
// "Error calling tool".
func kindOf(e *openenv.RPCError) Kind {
	var said struct {
		Kind Kind `json:"error_type"`
	}
	if json.Unmarshal(e.Data, &said) == nil && said.Kind != "" {
		return said.Kind
	}
	text := e.Message
	switch {
	case strings.HasPrefix(text, "Error calling tool"):
		return KindExecution
	case strings.HasPrefix(text, "Unknown tool"), strings.HasPrefix(text, "Tool not found"):
		return KindToolNotFound
	case e.Code == -32601: // the server makes no sessions
		return KindTransport
	case badArguments.MatchString(text), e.Code == -32602:
		return KindInvalidArgs
	case strings.Contains(text, "timed out after"):
		return KindTimeout
	}
	return KindExecution
}

// textOf is the text of a result's content.
func textOf(content []sdk.Content) string {
	var texts []string
	for _, block := range content {
		if text, ok := block.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	if len(texts) == 0 {
		return "tool failed without a message"
	}
	return strings.Join(texts, "\n")
}
