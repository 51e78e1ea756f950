package envserver

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/openenv-go/openenv/internal/wire"
)

// objectBody splits a JSON object into its members.
func objectBody(body []byte) (map[string]jsontext.Value, []fieldError) {
	var members map[string]jsontext.Value
	err := wire.Unmarshal(body, &members, wire.Float64)
	if err == nil && members != nil {
		return members, nil
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return nil, []fieldError{{"json_invalid", []any{"body", syntax.ByteOffset}, "JSON decode error", map[string]any{}, map[string]any{"error": syntax.Err.Error()}}}
	}
	return nil, []fieldError{{Type: "model_attributes_type", Loc: []any{"body"}, Msg: "Input should be a valid dictionary or object to extract fields from", Input: json.RawMessage(body)}}
}

// resetRequest is what POST /reset wants of the parameters that every environment has
// (types.py, ResetRequest).
var resetRequest = &jsonschema.Schema{
	Type:          "object",
	PropertyOrder: []string{"seed", "episode_id"},
	Properties: map[string]*jsonschema.Schema{
		"seed":       {Types: []string{"integer", "null"}, Minimum: new(0.0)},
		"episode_id": {Types: []string{"string", "null"}, MaxLength: new(255)},
	},
}

// resetBody checks the body of POST /reset, which may be absent.
func resetBody(body []byte) (jsontext.Value, []fieldError) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	if _, errs := objectBody(body); errs != nil {
		return nil, errs
	}
	var errs []fieldError
	explainValue(resetRequest, []any{"body"}, body, &errs)
	return jsontext.Value(body), errs
}

// stepBody returns the action in the body of POST /step (types.py, StepRequest).
func stepBody(body []byte) (jsontext.Value, []fieldError) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, []fieldError{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}
	members, errs := objectBody(body)
	if errs != nil {
		return nil, errs
	}
	action, ok := members["action"]
	switch {
	case !ok:
		return nil, []fieldError{missing([]any{"body", "action"}, body)}
	case action.Kind() != '{':
		return nil, []fieldError{typeError("object", []any{"body", "action"}, action)}
	}
	return action, nil
}
