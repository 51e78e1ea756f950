package envserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gojson "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonschemago "github.com/google/jsonschema-go/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/openenv-go/openenv/internal/wire"
)

// fieldError is one entry of a VALIDATION_ERROR or of a 422 answer, in the peer's
// vocabulary, which is pydantic's.
type fieldError struct {
	Type  string         `json:"type"`
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Input any            `json:"input"`
	Ctx   map[string]any `json:"ctx,omitempty"` // the numbers and names in Msg
}

func missing(loc []any, in jsontext.Value) fieldError {
	return fieldError{Type: "missing", Loc: loc, Msg: "Field required", Input: json.RawMessage(in)}
}

func extra(loc []any, value jsontext.Value) fieldError {
	return fieldError{Type: "extra_forbidden", Loc: loc, Msg: "Extra inputs are not permitted", Input: json.RawMessage(value)}
}

// validationError lists everything that is wrong with a request.
type validationError struct{ errs []fieldError }

func (e *validationError) Error() string {
	return fmt.Sprintf("%d validation errors, the first: %s %v", len(e.errs), e.errs[0].Msg, e.errs[0].Loc)
}

func (e *validationError) frame() wire.Error {
	return wire.Error{Code: wire.CodeValidation, Message: "Invalid message", Details: map[string]any{"errors": e.errs}}
}

// checkEnvelope checks a frame's own keys as the peer does: the known fields in
// order, then each unknown key (core/env_server/types.py, WSStepMessage and others).
func checkEnvelope(req wire.Request, message jsontext.Value) *validationError {
	var errs []fieldError
	needs, takes := req.Type == wire.TypeStep || req.Type == wire.TypeMCP, req.Type != wire.TypeState && req.Type != wire.TypeClose
	switch req.Type {
	case wire.TypeReset, wire.TypeStep, wire.TypeMCP, wire.TypeState, wire.TypeClose:
	default:
		return nil // the type itself is the problem
	}
	switch {
	case req.Data == nil && needs:
		errs = append(errs, missing([]any{"data"}, message))
	case req.Data == nil:
	case !takes:
		errs = append(errs, extra([]any{"data"}, req.Data))
	case req.Data.Kind() != '{':
		errs = append(errs, typeError("object", []any{"data"}, req.Data))
	}
	for _, m := range req.Extra {
		errs = append(errs, extra([]any{m.Name}, m.Value))
	}
	if errs == nil {
		return nil
	}
	return &validationError{errs}
}

// validator checks actions against the schema of their type.
type validator struct {
	shape  *shape
	schema *jsonschemago.Schema
	full   *jsonschema.Schema
}

func newValidator(s *jsonschemago.Schema) (*validator, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("action.json", doc); err != nil {
		return nil, err
	}
	full, err := c.Compile("action.json")
	if err != nil {
		return nil, err
	}
	return &validator{shape: newShape(s), schema: s, full: full}, nil
}

// explain returns a *validationError with all that is wrong with an action for which
// decode gave a reason. It returns nil when only the quick look at the shape had failed:
// the action is good.
func (v *validator) explain(data jsontext.Value, reason error) error {
	var errs []fieldError
	explainValue(v.schema, nil, data, &errs)
	if errs != nil {
		return &validationError{errs}
	}
	inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	err = v.full.Validate(inst)
	var ve *jsonschema.ValidationError
	switch {
	case err == nil && errors.Is(reason, errShape):
		return nil
	case err == nil: // the type is stricter than its schema
		return &validationError{[]fieldError{decodeError(data, reason)}}
	case errors.As(err, &ve): // a keyword that only the full validator knows
		collect(ve, inst, &errs)
		return &validationError{errs}
	}
	return err
}

// collect turns the leaves of a validation error into entries.
func collect(ve *jsonschema.ValidationError, root any, errs *[]fieldError) {
	for _, cause := range ve.Causes {
		collect(cause, root, errs)
	}
	if len(ve.Causes) > 0 {
		return
	}
	loc, input := locate(root, ve.InstanceLocation)
	*errs = append(*errs, fieldError{Type: "value_error", Loc: loc, Msg: "Value error, " + ve.Error(), Input: input})
}

// decodeError is what a type says that decodes itself, at the place where it is used.
func decodeError(data jsontext.Value, reason error) fieldError {
	var path []string
	if se, ok := errors.AsType[*gojson.SemanticError](reason); ok {
		for token := range se.JSONPointer.Tokens() {
			path = append(path, token)
		}
		if se.Err != nil {
			reason = se.Err
		}
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		root = nil
	}
	loc, input := locate(root, path)
	return fieldError{Type: "value_error", Loc: loc, Msg: "Value error, " + strings.TrimPrefix(reason.Error(), "json: "), Input: input}
}

// locate follows a path of keys and indexes into a decoded value.
func locate(v any, path []string) (loc []any, at any) {
	loc = []any{}
	for _, part := range path {
		switch c := v.(type) {
		case map[string]any:
			loc, v = append(loc, part), c[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(c) {
				return loc, v
			}
			loc, v = append(loc, i), c[i]
		}
	}
	return loc, v
}
