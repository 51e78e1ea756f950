package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/internal/tooljson"
)

// inputs checks arguments against the schemas of tools, which it prepares once.
type inputs struct {
	mu    sync.Mutex
	known map[string]input
}

type input struct {
	of       *sdk.Tool
	resolved *jsonschema.Resolved // nil for a schema that the library cannot read
}

// check returns what is wrong with a tool's arguments. A schema of a draft that the
// library does not know is for the handler to apply.
func (in *inputs) check(tool *sdk.Tool, arguments json.RawMessage) error {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	var values map[string]any
	if err := json.Unmarshal(arguments, &values); err != nil {
		return fmt.Errorf("not an object: %w", err)
	}
	if values == nil {
		values = make(map[string]any)
	}
	resolved := in.resolve(tool)
	if resolved == nil {
		return nil
	}
	if err := resolved.ApplyDefaults(&values); err != nil {
		return plain(err)
	}
	if err := resolved.Validate(values); err != nil {
		return plain(err)
	}
	return nil
}

// plain leaves out of an error how the library came to it.
func plain(err error) error {
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "validating root: "))
}

func (in *inputs) resolve(tool *sdk.Tool) *jsonschema.Resolved {
	in.mu.Lock()
	defer in.mu.Unlock()
	if had, ok := in.known[tool.Name]; ok && had.of == tool {
		return had.resolved
	}
	if in.known == nil {
		in.known = make(map[string]input)
	}
	next := input{of: tool}
	if schema, err := schemaOf(tool.InputSchema); err == nil && schema != nil {
		if resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err == nil {
			next.resolved = resolved
		}
	}
	in.known[tool.Name] = next
	return next.resolved
}

// schemaOf reads a schema in whatever form a tool has it; nil for none.
func schemaOf(v any) (*jsonschema.Schema, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // no schema is no error
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	return schema, json.Unmarshal(text, schema)
}

// wraps reports whether an output schema says that the value is wrapped.
func wraps(output any) bool {
	switch s := output.(type) {
	case nil:
		return false
	case *jsonschema.Schema:
		mark, _ := s.Extra[tooljson.WrapMarker].(bool)
		return mark
	}
	text, err := json.Marshal(output)
	if err != nil {
		return false
	}
	var marked map[string]any
	_ = json.Unmarshal(text, &marked) // a schema that is a boolean has no marker
	mark, _ := marked[tooljson.WrapMarker].(bool)
	return mark
}
