package envserver

import (
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/openenv-go/openenv/internal/wire"
)

// schemas describe the types of an environment, as GET /schema publishes them.
type schemas struct {
	action, observation, reset, state *jsonschema.Schema
}

func newSchemas[A, O, S any](set *settings) (schemas, error) {
	var all schemas
	var err error
	if all.action, err = schemaOf(reflect.TypeFor[A](), set); err != nil {
		return all, err
	}
	acceptMetadata(all.action)
	if all.observation, err = observationSchema(reflect.TypeFor[O](), set); err != nil {
		return all, err
	}
	all.reset = all.observation
	if set.resetType != nil {
		if all.reset, err = observationSchema(set.resetType, set); err != nil {
			return all, err
		}
	}
	all.state, err = schemaOf(reflect.TypeFor[S](), set)
	return all, err
}

func (s schemas) encode() ([]byte, error) {
	return wire.Marshal(struct {
		Action      *jsonschema.Schema `json:"action"`
		Observation *jsonschema.Schema `json:"observation"`
		State       *jsonschema.Schema `json:"state"`
		Reset       *jsonschema.Schema `json:"reset_observation"`
	}{s.action, s.observation, s.state, s.reset})
}

// schemaOf describes a Go type as the protocol sees it.
func schemaOf(t reflect.Type, set *settings) (*jsonschema.Schema, error) {
	if p, ok := reflect.TypeAssert[SchemaProvider](reflect.New(t)); ok && set.types[t] == nil {
		return parseSchema(p.JSONSchema())
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: set.types})
	if err != nil {
		return nil, err
	}
	allowNull(s)
	nameModels(s, t)
	return s, nil
}

// allowNull completes the enum of a value behind a pointer: its type may be null.
func allowNull(s *jsonschema.Schema) {
	if s.Enum != nil && slices.Contains(s.Types, "null") && !slices.Contains(s.Enum, nil) {
		s.Enum = append(slices.Clone(s.Enum), nil)
	}
	for _, p := range s.Properties {
		allowNull(p)
	}
	for _, of := range []*jsonschema.Schema{s.Items, s.AdditionalProperties} {
		if of != nil {
			allowNull(of)
		}
	}
}

// nameModels gives the schema of each named struct type that name, as the peer does:
// readers and errors call it by that.
func nameModels(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	default:
	case reflect.Slice, reflect.Array:
		if s.Items != nil {
			nameModels(s.Items, t.Elem())
		}
	case reflect.Map:
		if s.AdditionalProperties != nil {
			nameModels(s.AdditionalProperties, t.Elem())
		}
	case reflect.Struct:
		if s.Properties == nil {
			return // a type with a schema of its own, time.Time for one
		}
		if s.Title == "" {
			s.Title = t.Name()
		}
		for _, field := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				name = field.Name
			}
			if p := s.Properties[name]; p != nil && !field.Anonymous {
				nameModels(p, field.Type)
			}
		}
	}
}

// metadataProperty is on every action and observation of the peer
// (core/env_server/types.py, Action and Observation).
func metadataProperty(description string) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", Title: "Metadata", Description: description,
		AdditionalProperties: &jsonschema.Schema{},
	}
}

// addProperty gives an object schema a property, unless it has one of that name.
func addProperty(s *jsonschema.Schema, name string, p *jsonschema.Schema) {
	if _, has := s.Properties[name]; has || s.Type != "object" {
		return
	}
	if s.Properties == nil {
		s.Properties = make(map[string]*jsonschema.Schema)
	}
	s.Properties[name] = p
	if len(s.PropertyOrder) > 0 {
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
}

// observationSchema adds the members that the peer's Observation has (types.py):
// schemas describe the environment's model, in which reward and done stand.
func observationSchema(t reflect.Type, set *settings) (*jsonschema.Schema, error) {
	s, err := schemaOf(t, set)
	if err != nil {
		return nil, err
	}
	addProperty(s, "done", &jsonschema.Schema{Type: "boolean", Title: "Done", Description: "Whether the episode has terminated"})
	addProperty(s, "reward", &jsonschema.Schema{Types: []string{"number", "boolean", "null"}, Title: "Reward", Description: "Reward signal of the last action"})
	addProperty(s, "metadata", metadataProperty("Additional metadata for the observation"))
	return s, nil
}
