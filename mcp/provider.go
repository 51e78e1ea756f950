package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/envserver"
)

var errCallTimeout = errors.New("tool call took too long")

// ListTools returns the tools of the server's mode, every field of them as registered.
func (e *Environment) ListTools(ctx context.Context) ([]*sdk.Tool, error) {
	meta, leave := e.guard.enter(ctx)
	defer leave()
	tools := []*sdk.Tool{}
	for tool, err := range e.client.Tools(ctx, &sdk.ListToolsParams{Meta: meta}) {
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

// CallTool calls a tool within the limit of [WithCallTimeout]. A call that came to
// nothing is a [*envserver.ToolError]; when ctx ends before the call the error is that
// of ctx.
func (e *Environment) CallTool(ctx context.Context, name string, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	outer := ctx
	if e.set.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.set.limit, errCallTimeout)
		defer cancel()
	}
	meta, leave := e.guard.enter(ctx)
	defer leave()
	result, err := e.client.CallTool(ctx, &sdk.CallToolParams{Meta: meta, Name: name, Arguments: arguments})
	switch {
	case err == nil && result.NeedsInput():
		return nil, &envserver.ToolError{Type: envserver.ToolErrorExecution, Message: fmt.Sprintf("Error calling tool '%s': it asks its client for input, which an environment cannot give", name)}
	case err == nil:
		return result, nil
	case outer.Err() != nil:
		return nil, context.Cause(outer)
	case errors.Is(context.Cause(ctx), errCallTimeout):
		return nil, &envserver.ToolError{Type: envserver.ToolErrorTimeout, Message: fmt.Sprintf("Tool '%s' timed out after %v", name, seconds(e.set.limit))}
	}
	return nil, failure(name, err)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%g seconds", d.Seconds()) }

// failure gives the error of a call its type: the guard's answers carry it, the others
// are a handler's.
func failure(name string, err error) *envserver.ToolError {
	known, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return &envserver.ToolError{Type: envserver.ToolErrorExecution, Message: fmt.Sprintf("Error calling tool '%s': %v", name, err)}
	}
	var data errorType
	if json.Unmarshal(known.Data, &data) == nil && data.Guard {
		return &envserver.ToolError{Type: data.Type, Message: known.Message}
	}
	typ := envserver.ToolErrorExecution
	if known.Code == jsonrpc.CodeInvalidParams {
		typ = envserver.ToolErrorInvalidArgs
	}
	return &envserver.ToolError{Type: typ, Message: fmt.Sprintf("Error calling tool '%s': %s", name, known.Message)}
}
