package envserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/internal/tooljson"
	"github.com/openenv-go/openenv/internal/wire"
)

// ToolProvider is implemented by environments that have tools. The server answers
// tools/list and tools/call with it, on POST /mcp, on the /mcp socket, in mcp frames
// of the session socket and to clients of the standard protocol. Its calls take turns
// with Reset, Step and State, and their ctx ends as theirs does, or when the request
// is cancelled.
type ToolProvider interface {
	// ListTools returns the tools that may be called now, in the mode of
	// [ServerMode]. The server does not change them.
	ListTools(ctx context.Context) ([]*sdk.Tool, error)
	// CallTool calls a tool. Arguments are an object, "{}" when the client sent none.
	// A tool that ran and failed is a result with IsError; an error is a call that
	// did not come to that, a [*ToolError] where its kind is known.
	//
	// The value of a result, which the peer's dialect has beside the content, is its
	// structured content; of one whose metadata has fastmcp.wrap_result, the member
	// "result" of that.
	CallTool(ctx context.Context, name string, arguments json.RawMessage) (*sdk.CallToolResult, error)
}

// Types of a ToolError (core/env_server/mcp_types.py, ToolErrorType).
const (
	ToolErrorNotFound    = "tool_not_found"
	ToolErrorInvalidArgs = "invalid_args"
	ToolErrorExecution   = "execution_error"
	ToolErrorTimeout     = "timeout"
)

// ToolError is a tool call that failed in a way that clients can tell apart.
type ToolError struct {
	Type    string // ToolErrorNotFound and so on
	Message string // for the client
}

func (e *ToolError) Error() string { return e.Message }

// toolErrorOf gives an error of a tool call its type. A call that exceeded the server's
// own limit timed out, too.
func toolErrorOf(err error) *ToolError {
	if known, ok := errors.AsType[*ToolError](err); ok {
		return known
	}
	typ := ToolErrorExecution
	if overdue(err) {
		typ = ToolErrorTimeout
	}
	return &ToolError{Type: typ, Message: err.Error()}
}

// overdue reports whether a call was left because it took too long: what it runs may
// not have noticed yet.
func overdue(err error) bool {
	if _, late := errors.AsType[*limitError](err); late {
		return true
	}
	known, ok := errors.AsType[*ToolError](err)
	return ok && known.Type == ToolErrorTimeout
}

// FailedTool describes a result that says that its tool failed, in the words of the
// peer (FastMCP, ToolError).
func FailedTool(name string, result *sdk.CallToolResult) *ToolError {
	var texts []string
	for _, block := range result.Content {
		if text, ok := block.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return &ToolError{Type: ToolErrorExecution, Message: fmt.Sprintf("Error calling tool '%s': %s", name, strings.Join(texts, "\n"))}
}

// toolParams are those of tools/call. A client of the standard protocol may send its
// own beside them.
type toolParams struct {
	SessionID string          `json:"session_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func (p toolParams) arguments() (json.RawMessage, error) {
	raw := bytes.TrimSpace(p.Arguments)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage("{}"), nil
	case raw[0] != '{':
		return nil, &ToolError{Type: ToolErrorInvalidArgs, Message: fmt.Sprintf("Invalid arguments for tool '%s': they are not an object", p.Name)}
	}
	return p.Arguments, nil
}

var errNoTools = errors.New("Environment does not support MCP") // in the peer's words

// askTools makes a call on the tools of an environment by way of do. A call that
// outlives its limit keeps what it returns to itself.
func askTools[T any](do func(call) error, ask func(context.Context, ToolProvider) (T, error)) (answer T, err error) {
	answered := make(chan T, 1)
	err = do(call{typ: wire.TypeMCP, ask: func(ctx context.Context, env instance) error {
		p := env.toolProvider()
		if p == nil {
			return errNoTools
		}
		answer, err := ask(ctx, p)
		answered <- answer
		return err
	}})
	if err != nil {
		return answer, err
	}
	return <-answered, nil
}

func listTools(do func(call) error) ([]*sdk.Tool, error) {
	return askTools(do, func(ctx context.Context, p ToolProvider) ([]*sdk.Tool, error) { return p.ListTools(ctx) })
}

func callTool(do func(call) error, params toolParams) (*sdk.CallToolResult, error) {
	arguments, err := params.arguments()
	if err != nil {
		return nil, err
	}
	return askTools(do, func(ctx context.Context, p ToolProvider) (*sdk.CallToolResult, error) {
		result, err := p.CallTool(ctx, params.Name, arguments)
		if err == nil && result == nil {
			err = errors.New("environment returned no result")
		}
		return result, err
	})
}

// answerTools is tools/list and tools/call in the peer's dialect.
func answerTools(req rpcRequest, params toolParams, do func(call) error) (rpcResponse, error) {
	var (
		result any
		err    error
	)
	if *req.Method == "tools/list" {
		result, err = encodedTools(do)
	} else {
		result, err = encodedCall(do, params)
	}
	var full *capacityError
	var broken *factoryError
	switch {
	case err == nil:
		return rpcResult(req.ID, result), nil
	case errors.As(err, &full), errors.As(err, &broken):
		return rpcFail(req.ID, rpcServer, err.Error(), refusalData(err)), nil
	case errors.Is(err, errNoTools):
		return rpcFail(req.ID, rpcInternal, err.Error(), nil), nil
	}
	failure := toolErrorOf(err)
	resp := rpcFail(req.ID, rpcInternal, failure.Message, map[string]any{"error_type": failure.Type})
	if errors.Is(err, errPanicked) {
		return resp, err
	}
	return resp, nil
}

func encodedTools(do func(call) error) (any, error) {
	tools, err := listTools(do)
	if err != nil {
		return nil, err
	}
	list, err := tooljson.EncodeTools(tools)
	if err != nil {
		return nil, err
	}
	return struct {
		Tools json.RawMessage `json:"tools"`
	}{list}, nil
}

func encodedCall(do func(call) error, params toolParams) (any, error) {
	result, err := callTool(do, params)
	if err != nil {
		return nil, err
	}
	if result.IsError {
		return nil, FailedTool(params.Name, result)
	}
	return tooljson.EncodeResult(result)
}
