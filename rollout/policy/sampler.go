package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Sampler makes values that a JSON Schema allows. It is safe for concurrent use.
type Sampler struct {
	root      any
	validator *jsonschema.Schema
}

const (
	// sampleTries is how many values are made before a schema is given up: some of
	// what a schema can say is only checked, and not aimed at.
	sampleTries = 200
	// deepest is where a schema that refers to itself is cut short: no more than what
	// is required, and the first alternative that ends.
	deepest = 6
	// unbounded is how far beyond a single bound numbers go.
	unbounded = 100
)

// NewSampler reads a schema of draft 2020-12, or of the draft that it names.
func NewSampler(schema []byte) (*Sampler, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("schema is not JSON: %w", err)
	}
	const name = "schema.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, root); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	validator, err := c.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Sampler{root, validator}, nil
}

// Sample makes a value. The same state of rng makes the same one. It leaves out the
// protocol's own "metadata" of an action.
func (s *Sampler) Sample(rng *rand.Rand) (json.RawMessage, error) {
	var failed error
	for range sampleTries {
		d := &draw{root: s.root, rng: rng, budget: mostValues}
		v, err := d.value(s.root, 0)
		if err != nil {
			return nil, err
		}
		encoded, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		checked, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
		if err != nil {
			return nil, err
		}
		if failed = s.validator.Validate(checked); failed == nil {
			return encoded, nil
		}
	}
	return nil, fmt.Errorf("no value was found that the schema allows; of the last one: %w", failed)
}

// draw is the making of one value.
type draw struct {
	root   any
	rng    *rand.Rand
	budget int // values inside it that may still be made
}

const (
	// mostValues and mostDepth bound what a schema can ask for. It is the server's, and
	// may want a list of a billion items, or one in a list in a list without an end.
	mostValues = 10_000
	mostDepth  = 100
	// mostLetters bounds a text.
	mostLetters = 1 << 20
)

var (
	errNothing = errors.New("schema allows no value")
	errEndless = errors.New("schema asks for a value that is too large to be made")
)

// value makes a value of a schema.
func (d *draw) value(schema any, depth int) (any, error) {
	if d.budget--; d.budget < 0 || depth > mostDepth {
		return nil, errEndless
	}
	switch s := schema.(type) {
	case bool:
		if !s {
			return nil, errNothing
		}
		return d.anything(), nil
	case map[string]any:
		return d.object(s, depth)
	}
	return nil, fmt.Errorf("a %T is no schema", schema)
}

// object makes a value of a schema that says something.
func (d *draw) object(s map[string]any, depth int) (any, error) {
	s, err := d.flatten(s)
	if err != nil {
		return nil, err
	}
	if c, ok := s["const"]; ok {
		return c, nil
	}
	if words, ok := s["enum"].([]any); ok {
		if len(words) == 0 {
			return nil, errNothing
		}
		return words[d.rng.IntN(len(words))], nil
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if branches, ok := s[key].([]any); ok && len(branches) > 0 {
			return d.branch(s, key, branches, depth)
		}
	}
	return d.typed(s, d.kind(s, depth), depth)
}

// branch chooses an alternative.
func (d *draw) branch(s map[string]any, key string, branches []any, depth int) (any, error) {
	chosen := branches[d.rng.IntN(len(branches))]
	if depth >= deepest {
		chosen = d.simplest(branches)
	}
	rest := maps.Clone(s)
	delete(rest, key)
	if b, ok := chosen.(map[string]any); ok {
		return d.value(merge(rest, b), depth+1)
	}
	return d.value(chosen, depth+1)
}

// simplest is the alternative that is sure to end: one that is no reference and has
// nothing inside, or the first.
func (d *draw) simplest(branches []any) any {
	for _, b := range branches {
		s, ok := b.(map[string]any)
		if !ok {
			continue
		}
		_, refers := s["$ref"]
		_, constant := s["const"]
		_, listed := s["enum"]
		if kind, _ := s["type"].(string); constant || listed || !refers && kind != "" && kind != "object" && kind != "array" {
			return b
		}
	}
	return branches[0]
}

// hops bounds a chain of references, which may be a circle.
const hops = 64

// flatten resolves a reference and puts the parts of allOf together.
func (d *draw) flatten(s map[string]any) (map[string]any, error) {
	for range hops {
		switch ref, refers := s["$ref"].(string); {
		case refers:
			target, err := d.resolve(ref)
			if err != nil {
				return nil, err
			}
			rest := maps.Clone(s)
			delete(rest, "$ref")
			s = merge(rest, target)
		default:
			parts, ok := s["allOf"].([]any)
			if !ok {
				return s, nil
			}
			rest := maps.Clone(s)
			delete(rest, "allOf")
			for _, part := range parts {
				if p, ok := part.(map[string]any); ok {
					flat, err := d.flatten(p)
					if err != nil {
						return nil, err
					}
					rest = merge(rest, flat)
				}
			}
			s = rest
		}
	}
	return nil, errors.New("references of the schema go round in a circle")
}

// resolve finds what a reference within the schema points to.
func (d *draw) resolve(ref string) (map[string]any, error) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, fmt.Errorf("reference %q leaves the schema", ref)
	}
	at := d.root
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		node, ok := at.(map[string]any)
		if !ok || node[part] == nil {
			return nil, fmt.Errorf("reference %q points to nothing", ref)
		}
		at = node[part]
	}
	target, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reference %q points to no object", ref)
	}
	return target, nil
}

// merge puts two schemas together; what both say of one key, b says, but for the parts
// of an object, which add up.
func merge(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for key, value := range b {
		switch key {
		case "properties":
			if there, ok := out[key].(map[string]any); ok {
				if more, ok := value.(map[string]any); ok {
					both := maps.Clone(there)
					maps.Copy(both, more)
					value = both
				}
			}
		case "required":
			there, _ := out[key].([]any)
			if more, ok := value.([]any); ok {
				value = append(slices.Clone(there), more...)
			}
		}
		out[key] = value
	}
	return out
}

// kind chooses the type of a value.
func (d *draw) kind(s map[string]any, depth int) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			name, _ := t[d.rng.IntN(len(t))].(string)
			if depth >= deepest && slices.Contains(t, any("null")) {
				name = "null"
			}
			return name
		}
	}
	for _, hint := range []struct{ kind, keys string }{
		{"object", "properties required additionalProperties minProperties"},
		{"array", "items prefixItems minItems maxItems"},
		{"string", "pattern minLength maxLength format"},
		{"number", "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"},
	} {
		for key := range strings.FieldsSeq(hint.keys) {
			if _, ok := s[key]; ok {
				return hint.kind
			}
		}
	}
	return ""
}

// typed makes a value of a type.
func (d *draw) typed(s map[string]any, kind string, depth int) (any, error) {
	switch kind {
	case "null":
		return nil, nil //nolint:nilnil // null is the value
	case "boolean":
		return d.rng.IntN(2) == 0, nil
	case "integer":
		return d.integer(s)
	case "number":
		return d.number(s)
	case "string":
		return d.text(s)
	case "array":
		return d.list(s, depth)
	case "object":
		return d.members(s, depth)
	case "":
		return d.anything(), nil
	}
	return nil, fmt.Errorf("schema has the type %q, which JSON has not", kind)
}

// anything is a value where all are allowed.
func (d *draw) anything() any {
	switch d.rng.IntN(3) {
	case 0:
		return d.rng.IntN(10)
	case 1:
		return d.rng.IntN(2) == 0
	}
	return d.letters(1, 8)
}
