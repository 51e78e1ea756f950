package envserver

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/openenv-go/openenv/internal/wire"
)

// schemaOf describes a Go type as the protocol sees it.
func schemaOf[T any]() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	if s.Title == "" {
		s.Title = reflect.TypeFor[T]().Name()
	}
	return s, nil
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

func actionSchema[A any]() (*jsonschema.Schema, error) {
	s, err := schemaOf[A]()
	if err != nil {
		return nil, err
	}
	addProperty(s, "metadata", metadataProperty("Additional metadata for the action"))
	return s, nil
}

func observationSchema[O any]() (*jsonschema.Schema, error) {
	s, err := schemaOf[O]()
	if err != nil {
		return nil, err
	}
	addProperty(s, "done", &jsonschema.Schema{Type: "boolean", Title: "Done", Description: "Whether the episode has terminated"})
	addProperty(s, "reward", &jsonschema.Schema{Types: []string{"number", "null"}, Title: "Reward", Description: "Reward signal of the last action"})
	addProperty(s, "metadata", metadataProperty("Additional metadata for the observation"))
	return s, nil
}

// encodeSchemas is the body of GET /schema.
func encodeSchemas[A, O, S any]() ([]byte, error) {
	action, err := actionSchema[A]()
	if err != nil {
		return nil, err
	}
	observation, err := observationSchema[O]()
	if err != nil {
		return nil, err
	}
	state, err := schemaOf[S]()
	if err != nil {
		return nil, err
	}
	return wire.Marshal(map[string]*jsonschema.Schema{"action": action, "observation": observation, "state": state})
}
