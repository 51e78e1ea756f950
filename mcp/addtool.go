package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/internal/tooljson"
)

// wrapped carries a value that is not an object, which structured content was only
// ever promised to be.
type wrapped[T any] struct {
	Result T `json:"result"`
}

// AddTool registers a typed handler as [sdk.AddTool] does, for outputs of every type: one
// that is not an object, a number say, is sent as {"result": value} under a schema that
// says so, which is how FastMCP does it, and clients of either make unwrap it. A tool
// that brings its own output schema is registered as it is. A type without a schema is
// an error.
func AddTool[In, Out any](server *sdk.Server, tool *sdk.Tool, handler sdk.ToolHandlerFor[In, Out]) (err error) {
	defer func() { // the SDK reports bad types so
		if p := recover(); p != nil {
			err = fmt.Errorf("add tool: %v", p)
		}
	}()
	if tool == nil || tool.OutputSchema != nil || !needsWrap(reflect.TypeFor[Out]()) {
		sdk.AddTool(server, tool, handler)
		return nil
	}
	schema, err := jsonschema.For[wrapped[Out]](nil)
	if err != nil {
		return fmt.Errorf("add tool %q: output schema: %w", tool.Name, err)
	}
	schema.AdditionalProperties = nil
	schema.Extra = map[string]any{tooljson.WrapMarker: true}
	copied := *tool
	copied.OutputSchema = schema
	sdk.AddTool(server, &copied, wrapping(handler))
	return nil
}

func wrapping[In, Out any](handler sdk.ToolHandlerFor[In, Out]) sdk.ToolHandlerFor[In, wrapped[Out]] {
	return func(ctx context.Context, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, wrapped[Out], error) {
		result, out, err := handler(ctx, req, in)
		if err != nil {
			return result, wrapped[Out]{}, err
		}
		if result == nil {
			result = new(sdk.CallToolResult)
		}
		if result.Content == nil { // the text is the value, not what carries it
			text, err := spell(out)
			if err != nil {
				return nil, wrapped[Out]{}, err
			}
			result.Content = []sdk.Content{&sdk.TextContent{Text: text}}
		}
		tooljson.MarkWrapped(result)
		return result, wrapped[Out]{out}, nil
	}
}

func spell(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// needsWrap reports whether values of a type are not objects. An interface is left to
// the SDK, which gives it no schema.
func needsWrap(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return false
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	return err == nil && schema.Type != "object"
}
