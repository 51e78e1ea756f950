package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/tooljson"
	"github.com/openenv-go/openenv/internal/wire"
)

// Result is the whole of what a tool answered.
type Result struct {
	*sdk.CallToolResult

	// Data is the value of the result: what the server says it is, else the structured
	// content, else the one text there is; nil when there is neither.
	Data json.RawMessage

	// Reward and Done are those of the step, in simulation mode. In production mode a
	// call is no step: there is no reward, and nothing is done.
	Reward *float64
	Done   bool
}

// CallTool calls a tool and returns the value of its result, decoded as a raw map
// would be. args are encoded as JSON and must be an object; nil is none.
func (c *Client) CallTool(ctx context.Context, name string, args any) (any, error) {
	return Call[any](ctx, c, name, args)
}

// Call calls a tool and decodes the value of its result into a T. A value that does not
// fit is an *openenv.DecodeError.
func Call[T any](ctx context.Context, c *Client, name string, args any) (T, error) {
	var value T
	result, err := c.CallToolResult(ctx, name, args)
	if err != nil || result.Data == nil {
		return value, err
	}
	if err := json.Unmarshal(result.Data, &value); err != nil {
		return value, &openenv.DecodeError{Op: fmt.Sprintf("call tool %q", name), URL: c.BaseURL(), Received: wire.Excerpt(result.Data), Err: err}
	}
	return value, nil
}

// CallToolResult calls a tool and returns the whole of its result. A tool that failed
// is a *[ToolError] here, too.
func (c *Client) CallToolResult(ctx context.Context, name string, args any) (*Result, error) {
	encoded, err := encodeArguments(args)
	if err != nil {
		return nil, c.invalid(name, err)
	}
	call := c.callByRPC
	if c.Mode() == openenv.ModeSimulation {
		call = c.callByStep
	}
	result, err := call(ctx, name, encoded)
	if err != nil {
		return nil, c.failure("call tool", name, err)
	}
	if result.IsError {
		return nil, &ToolError{Op: "call tool", Tool: name, URL: c.BaseURL(), Kind: KindExecution, Message: textOf(result.Content), Result: result.CallToolResult}
	}
	return result, nil
}

var errNoObject = errors.New("arguments are not a JSON object")

// encodeArguments turns the arguments into a JSON object. Strings that are not UTF-8 are
// refused: JSON cannot carry them.
func encodeArguments(args any) (json.RawMessage, error) {
	if args == nil {
		return json.RawMessage("{}"), nil
	}
	text, err := wire.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("arguments cannot be encoded: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return nil, errNoObject
	}
	return text, nil
}

func (c *Client) listByRPC(ctx context.Context) ([]*sdk.Tool, error) {
	answer, err := openenv.RPC(ctx, c, "tools/list", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Tools json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, c.undecoded("list tools", answer, err)
	}
	return c.decodeTools(list.Tools)
}

func (c *Client) listByStep(ctx context.Context) ([]*sdk.Tool, error) {
	step, err := c.Step(ctx, ListToolsAction())
	if err != nil {
		return nil, err
	}
	// The peer answers a list that failed with an empty one and says why in the
	// metadata (core/env_server/mcp_environment.py, _async_handle_list_tools).
	if failed, ok := step.Metadata["error"].(string); ok && step.Metadata["error_type"] == "list_tools_failed" {
		return nil, &stepError{ToolFailure{Kind: KindExecution, Message: failed}}
	}
	return c.decodeTools(step.Observation.Tools)
}

func (c *Client) decodeTools(raw json.RawMessage) ([]*sdk.Tool, error) {
	if raw == nil {
		return nil, ErrNoTools
	}
	tools, err := tooljson.DecodeTools(raw)
	if err != nil {
		return nil, c.undecoded("list tools", raw, err)
	}
	return tools, nil
}

func (c *Client) callByRPC(ctx context.Context, name string, args json.RawMessage) (*Result, error) {
	answer, err := openenv.RPC(ctx, c, "tools/call", openenv.Object{"name": name, "arguments": args})
	if err != nil {
		return nil, err
	}
	return c.decodeResult(answer)
}

func (c *Client) callByStep(ctx context.Context, name string, args json.RawMessage) (*Result, error) {
	arguments := openenv.Object{}
	numbers := json.NewDecoder(bytes.NewReader(args))
	numbers.UseNumber()
	if err := numbers.Decode(&arguments); err != nil {
		return nil, err
	}
	step, err := c.Step(ctx, CallToolAction(name, arguments))
	if err != nil {
		return nil, err
	}
	if failure := step.Observation.Error; failure != nil {
		return nil, &stepError{*failure}
	}
	result, err := c.decodeResult(step.Observation.Result)
	if err != nil {
		return nil, err
	}
	result.Reward, result.Done = step.Reward, step.Done
	return result, nil
}

// decodeResult reads a result. One that is not an object of MCP is a value by itself.
func (c *Client) decodeResult(raw json.RawMessage) (*Result, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' || !bytes.Contains(trimmed, []byte(`"content"`)) {
		if len(trimmed) == 0 || string(trimmed) == "null" {
			trimmed = nil
		}
		return &Result{CallToolResult: &sdk.CallToolResult{}, Data: trimmed}, nil
	}
	result, data, err := tooljson.DecodeResult(raw)
	if err != nil {
		return nil, c.undecoded("call tool", raw, err)
	}
	if data == nil {
		data = valueOf(result)
	}
	return &Result{CallToolResult: result, Data: data}, nil
}

// valueOf is the value of a result whose server does not name it.
func valueOf(r *sdk.CallToolResult) json.RawMessage {
	if r.StructuredContent != nil {
		value, err := json.Marshal(r.StructuredContent)
		if err == nil {
			return value
		}
	}
	if len(r.Content) != 1 {
		return nil
	}
	text, ok := r.Content[0].(*sdk.TextContent)
	if !ok {
		return nil
	}
	value, err := json.Marshal(text.Text)
	if err != nil {
		return nil
	}
	return value
}

func (c *Client) undecoded(op string, received json.RawMessage, err error) error {
	return &openenv.DecodeError{Op: op, URL: c.BaseURL(), Received: wire.Excerpt(received), Err: err}
}
