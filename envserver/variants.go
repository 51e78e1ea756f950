package envserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/openenv-go/openenv/internal/wire"
)

// actions are the validators of an environment's actions: one, or one for each variant.
type actions struct {
	own      *validator
	member   string
	variants map[string]*validator
}

func newActions(own *jsonschema.Schema, action reflect.Type) (actions, error) {
	var all actions
	var err error
	if all.own, err = newValidator(own); err != nil {
		return all, fmt.Errorf("action schema: %w", err)
	}
	several, ok := reflect.TypeAssert[ActionVariants](reflect.New(action))
	if !ok {
		return all, nil
	}
	member, schemas := several.ActionVariants()
	all.member, all.variants = member, make(map[string]*validator, len(schemas))
	for text, schema := range schemas {
		s, err := parseSchema(schema)
		if err != nil {
			return all, fmt.Errorf("schema of actions with %s %q: %w", member, text, err)
		}
		acceptMetadata(s)
		if all.variants[text], err = newValidator(s); err != nil {
			return all, fmt.Errorf("schema of actions with %s %q: %w", member, text, err)
		}
	}
	return all, nil
}

// of picks the validator of an action.
func (a *actions) of(data jsontext.Value) *validator {
	if a.variants == nil || data.Kind() != '{' {
		return a.own
	}
	for _, m := range membersOf(data) {
		var text string
		if m.Name == a.member && m.Value.Kind() == '"' && wire.Unmarshal(m.Value, &text, wire.Float64) == nil {
			if v, ok := a.variants[text]; ok {
				return v
			}
		}
	}
	return a.own
}

func parseSchema(text string) (*jsonschema.Schema, error) {
	s := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, err
	}
	for _, m := range membersOf(jsontext.Value(text)) { // errors come in the order of the fields
		if m.Name == "properties" && m.Value.Kind() == '{' {
			for _, property := range membersOf(m.Value) {
				s.PropertyOrder = append(s.PropertyOrder, property.Name)
			}
		}
	}
	return s, nil
}

// acceptMetadata lets an action carry metadata. It is the first of the peer's fields,
// which decides the order of errors.
func acceptMetadata(s *jsonschema.Schema) {
	addProperty(s, "metadata", metadataProperty("Additional metadata for the action"))
	if i := slices.Index(s.PropertyOrder, "metadata"); i > 0 {
		s.PropertyOrder = slices.Insert(slices.Delete(s.PropertyOrder, i, i+1), 0, "metadata")
	}
}
