package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// arguments are those of a tool, as they were typed.
type arguments struct {
	object openenv.Object // of one JSON object; nil: pairs
	pairs  []pair
}

type pair struct{ key, value string }

// parseArguments reads one JSON object, or key=value pairs.
func parseArguments(words []string) (arguments, error) {
	if len(words) == 0 {
		return arguments{object: openenv.Object{}}, nil
	}
	if strings.HasPrefix(strings.TrimSpace(words[0]), "{") {
		if len(words) > 1 {
			return arguments{}, usagef("call: arguments are one JSON object or key=value pairs, got %q after the object", clip(words[1]))
		}
		var object openenv.Object
		if err := wire.Unmarshal([]byte(words[0]), &object, wire.JSONNumber); err != nil {
			return arguments{}, usagef("call: the arguments are not a JSON object: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
		}
		return arguments{object: object}, nil
	}
	var args arguments
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || key == "":
			return arguments{}, usagef("call: arguments are given as key=value or as one JSON object, got %q", clip(word))
		case !utf8.ValidString(word):
			return arguments{}, usagef("call: %q is not UTF-8", clip(word))
		}
		if slices.ContainsFunc(args.pairs, func(p pair) bool { return p.key == key }) {
			return arguments{}, usagef("call: %s is given twice", key)
		}
		args.pairs = append(args.pairs, pair{key, value})
	}
	return args, nil
}

// typed reads the values by the tool's schema. What the schema does not describe is read
// as JSON if it is JSON, and as a string otherwise.
func (a arguments) typed(tool *sdk.Tool) (openenv.Object, error) {
	view := &schemaView{}
	root := &schemaNode{}
	if parsed, err := parseSchema(compact(tool.InputSchema)); err == nil {
		view.schema = parsed
		if node, _ := parsed.follow(parsed.root); node != nil {
			root = node
		}
	} else {
		view.schema = &schema{root: root}
	}
	object := openenv.Object{}
	for _, p := range a.pairs {
		node := root.property(p.key)
		if node == nil && root.Additional != nil {
			node = root.Additional
		}
		switch {
		case node == nil:
			node = &schemaNode{}
		case node.never:
			return nil, usagef("call: %s takes no argument %q; it has %s", oneLine(tool.Name), p.key, argumentsText(tool))
		}
		value, ok := view.read(node, p.value, 0)
		if !ok {
			return nil, usagef("call: %s=%s: the tool wants %s", p.key, clip(p.value), view.typeText(node, 0))
		}
		object[p.key] = value
	}
	return object, nil
}

func (n *schemaNode) property(name string) *schemaNode {
	for _, p := range n.Properties {
		if p.name == name {
			return p.node
		}
	}
	return nil
}

// read makes a value of what was typed, if n allows one. Where a string is only one of
// the types, JSON of another comes first: 3 is a number and "3" a string.
func (v *schemaView) read(n *schemaNode, text string, depth int) (any, bool) {
	node, _ := v.schema.follow(n)
	if node == nil || depth > maxDepth || !v.spend() {
		return guess(text), true
	}
	types, unknown := v.types(node, depth)
	if unknown {
		return guess(text), true
	}
	if len(types) == 1 && types[0] == "string" {
		return text, true
	}
	if value, ok := jsonValue(text); ok && slices.ContainsFunc(types, func(t string) bool { return isOf(value, t) }) {
		return value, true
	}
	return text, slices.Contains(types, "string")
}

// types lists what a value may be, and reports whether the schema does not say.
func (v *schemaView) types(n *schemaNode, depth int) (types []string, unknown bool) {
	node, _ := v.schema.follow(n)
	if node == nil || depth > maxDepth || !v.spend() {
		return nil, true
	}
	choice, nullable := v.schema.alternatives(node)
	if nullable {
		types = append(types, "null")
	}
	if len(choice) == 1 && choice[0] == node {
		own := node.Type
		if len(own) == 0 {
			own = valueTypes(node)
		}
		if len(own) == 0 && len(node.AllOf) == 1 {
			return v.types(node.AllOf[0], depth+1)
		}
		return append(types, own...), len(own) == 0
	}
	for _, alternative := range choice {
		more, unknown := v.types(alternative, depth+1)
		if unknown {
			return nil, true
		}
		types = append(types, more...)
	}
	return types, false
}

// valueTypes is for schemas that list values or describe parts without naming a type.
func valueTypes(node *schemaNode) (types []string) {
	values := node.Enum
	if len(node.Const) > 0 {
		values = append(slices.Clone(values), node.Const)
	}
	for _, raw := range values {
		value, ok := jsonValue(string(raw))
		for _, name := range []string{"null", "boolean", "integer", "number", "string", "array", "object"} {
			if ok && isOf(value, name) {
				types = append(types, name)
				break
			}
		}
	}
	if len(values) > 0 {
		return types
	}
	switch implied := impliedType(node); {
	case slices.Contains(implied, "object"), slices.Contains(implied, "array"):
		return implied
	}
	return nil
}

// guess reads JSON, or else a string.
func guess(text string) any {
	if value, ok := jsonValue(text); ok {
		return value
	}
	return text
}

// jsonValue keeps every digit of a number.
func jsonValue(text string) (value any, ok bool) {
	return value, wire.Unmarshal([]byte(text), &value, wire.JSONNumber) == nil
}

// isOf reports whether a decoded value is of a JSON Schema type.
func isOf(value any, name string) bool {
	switch value := value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case json.Number:
		return name == "number" || name == "integer" && isInteger(value)
	case []any:
		return name == "array"
	default:
		return name == "object"
	}
}

// isInteger counts 1.0 as one, as JSON Schema does.
func isInteger(n json.Number) bool {
	if whole, rest, ok := strings.Cut(n.String(), "."); ok {
		return strings.Trim(rest, "0") == "" && !strings.ContainsAny(whole, "eE")
	}
	return !strings.ContainsAny(n.String(), "eE")
}
