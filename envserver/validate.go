package envserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	jsonschemago "github.com/google/jsonschema-go/jsonschema"
	"github.com/openenv-go/openenv/internal/wire"
	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// fieldError is one entry of a VALIDATION_ERROR, in the peer's vocabulary.
type fieldError struct {
	Type  string `json:"type"`
	Loc   []any  `json:"loc"`
	Msg   string `json:"msg"`
	Input any    `json:"input"`
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
func checkEnvelope(req wire.Request) *validationError {
	var errs []fieldError
	needs, takes := req.Type == wire.TypeStep || req.Type == wire.TypeMCP, req.Type != wire.TypeState && req.Type != wire.TypeClose
	switch req.Type {
	case wire.TypeReset, wire.TypeStep, wire.TypeMCP, wire.TypeState, wire.TypeClose:
	default:
		return nil // the type itself is the problem
	}
	switch {
	case req.Data == nil && needs:
		errs = append(errs, fieldError{"missing", []any{"data"}, "Field required", map[string]any{"type": req.Type}})
	case req.Data == nil:
	case !takes:
		errs = append(errs, fieldError{"extra_forbidden", []any{"data"}, "Extra inputs are not permitted", json.RawMessage(req.Data)})
	case req.Data.Kind() != '{':
		errs = append(errs, fieldError{"dict_type", []any{"data"}, "Input should be a valid dictionary", json.RawMessage(req.Data)})
	}
	for _, m := range req.Extra {
		errs = append(errs, fieldError{"extra_forbidden", []any{m.Name}, "Extra inputs are not permitted", json.RawMessage(m.Value)})
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

func newValidator[A any]() (*validator, error) {
	s, err := actionSchema[A]()
	if err != nil {
		return nil, err
	}
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
// decode gave a reason. For one that its schema allows, the decoder's reason is what is
// wrong: the type is stricter, with a number out of range or an unmarshaller of its own.
// It returns nil when only the quick look at the shape had failed: the action is good.
func (v *validator) explain(data jsontext.Value, reason error) error {
	inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	err = v.full.Validate(inst)
	if err == nil && errors.Is(reason, errShape) {
		return nil
	}
	if err == nil {
		return &validationError{[]fieldError{{"value_error", []any{}, "Value error, " + reason.Error(), json.RawMessage(data)}}}
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return err
	}
	var errs []fieldError
	collect(ve, inst, &errs)
	order := positions(data)
	sort.SliceStable(errs, func(i, j int) bool { return v.less(errs[i], errs[j], order) })
	return &validationError{errs}
}

// less puts known fields in the order of their declaration before unknown keys in
// the order of the input, as the peer does.
func (v *validator) less(a, b fieldError, order map[string]int) bool {
	rank := func(e fieldError) int {
		if len(e.Loc) == 0 {
			return -1
		}
		name, _ := e.Loc[0].(string)
		if i := slices.Index(v.schema.PropertyOrder, name); i >= 0 {
			return i
		}
		return len(v.schema.PropertyOrder) + order[name]
	}
	return rank(a) < rank(b)
}

// positions tells where each top-level key of an object stands in the input.
func positions(data jsontext.Value) map[string]int {
	order := make(map[string]int)
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return order
	}
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return order
		}
		order[tok.String()] = len(order)
		if dec.SkipValue() != nil {
			return order
		}
	}
	return order
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
	at := func(name string) []any { return append(slices.Clone(loc), name) }
	switch k := ve.ErrorKind.(type) {
	case *schemakind.Required:
		for _, name := range k.Missing {
			*errs = append(*errs, fieldError{"missing", at(name), "Field required", input})
		}
	case *schemakind.AdditionalProperties:
		for _, name := range k.Properties {
			object, _ := input.(map[string]any)
			*errs = append(*errs, fieldError{"extra_forbidden", at(name), "Extra inputs are not permitted", object[name]})
		}
	case *schemakind.Type:
		typ, msg := typeError(k.Want)
		*errs = append(*errs, fieldError{typ, loc, msg, input})
	case *schemakind.Minimum:
		want := k.Want.RatString()
		*errs = append(*errs, fieldError{"greater_than_equal", loc, "Input should be greater than or equal to " + want, input})
	default:
		*errs = append(*errs, fieldError{"value_error", loc, "Value error, " + ve.Error(), input})
	}
}

// typeError names a type mismatch as pydantic does.
func typeError(want []string) (typ, msg string) {
	want = slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s == "null" })
	if len(want) == 0 {
		return "none_required", "Input should be None"
	}
	switch want[0] {
	case "string":
		return "string_type", "Input should be a valid string"
	case "integer":
		return "int_type", "Input should be a valid integer"
	case "number":
		return "float_type", "Input should be a valid number"
	case "boolean":
		return "bool_type", "Input should be a valid boolean"
	case "array":
		return "list_type", "Input should be a valid list"
	}
	return "dict_type", "Input should be a valid dictionary"
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
