package envserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/openenv-go/openenv/internal/wire"
)

// explainValue appends all that is wrong with a value, which must be valid JSON, in the
// words and in the order of pydantic: the fields as they are declared, then unknown keys
// as they came. It knows the keywords that Go types and simple schemas have; what it
// has nothing to say about may still be wrong.
func explainValue(s *jsonschema.Schema, loc []any, raw jsontext.Value, errs *[]fieldError) {
	kind := raw.Kind()
	types := typesOf(s)
	if kind == 'n' && slices.Contains(types, "null") {
		return
	}
	if len(s.Enum) > 0 {
		explainEnum(s, loc, raw, errs)
		return
	}
	want := wanted(types)
	if want == "" {
		return
	}
	if !slices.Contains(kindsOf[want], kind) {
		e := typeError(want, loc, raw)
		if want == "object" && isModel(s) {
			e.Type, e.Msg = "model_type", "Input should be a valid dictionary or instance of "+s.Title
			e.Ctx = map[string]any{"class_name": s.Title}
		}
		*errs = append(*errs, e)
		return
	}
	switch want {
	case "object":
		explainObject(s, loc, raw, errs)
	case "array":
		explainArray(s, loc, raw, errs)
	case "string":
		explainString(s, loc, raw, errs)
	case "integer", "number":
		explainNumber(s, want, loc, raw, errs)
	}
}

func typesOf(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

// wanted is the one type beside null; a choice of several is for the full validator.
func wanted(types []string) string {
	want := ""
	for _, t := range types {
		if t == "null" {
			continue
		}
		if want != "" {
			return ""
		}
		want = t
	}
	return want
}

// isModel tells a struct from a map.
func isModel(s *jsonschema.Schema) bool { return s.Title != "" && forbids(s.AdditionalProperties) }

func explainObject(s *jsonschema.Schema, loc []any, raw jsontext.Value, errs *[]fieldError) {
	members := membersOf(raw)
	at := func(name string) []any { return append(slices.Clone(loc), name) }
	for _, name := range s.PropertyOrder {
		i := slices.IndexFunc(members, func(m wire.Member) bool { return m.Name == name })
		switch {
		case i >= 0:
			explainValue(s.Properties[name], at(name), members[i].Value, errs)
		case slices.Contains(s.Required, name):
			*errs = append(*errs, missing(at(name), raw))
		}
	}
	for _, m := range members {
		_, known := s.Properties[m.Name]
		switch {
		case known && slices.Contains(s.PropertyOrder, m.Name):
		case known:
			explainValue(s.Properties[m.Name], at(m.Name), m.Value, errs)
		case forbids(s.AdditionalProperties):
			*errs = append(*errs, extra(at(m.Name), m.Value))
		case s.AdditionalProperties != nil:
			explainValue(s.AdditionalProperties, at(m.Name), m.Value, errs)
		}
	}
}

func explainArray(s *jsonschema.Schema, loc []any, raw jsontext.Value, errs *[]fieldError) {
	before := len(*errs)
	n := 0
	for item := range itemsOf(raw) {
		if s.Items != nil {
			explainValue(s.Items, append(slices.Clone(loc), n), item, errs)
		}
		n++
	}
	items := func(n int) string {
		if n == 1 {
			return "1 item"
		}
		return strconv.Itoa(n) + " items"
	}
	size := func(typ, bound, key string, limit int) {
		*errs = append(*errs, fieldError{
			Type: typ, Loc: loc, Input: json.RawMessage(raw),
			Msg: fmt.Sprintf("List should have at %s %s after validation, not %d", bound, items(limit), n),
			Ctx: map[string]any{"field_type": "List", key: limit, "actual_length": n},
		})
	}
	switch {
	case s.MaxItems != nil && n > *s.MaxItems:
		*errs = (*errs)[:before] // of a list that is too long its items are not looked at
		size("too_long", "most", "max_length", *s.MaxItems)
	case len(*errs) > before:
	case s.MinItems != nil && n < *s.MinItems:
		size("too_short", "least", "min_length", *s.MinItems)
	}
}

func explainString(s *jsonschema.Schema, loc []any, raw jsontext.Value, errs *[]fieldError) {
	if s.MinLength == nil && s.MaxLength == nil && s.Pattern == "" {
		return
	}
	var text string
	if wire.Unmarshal(raw, &text, wire.Float64) != nil {
		return
	}
	n := utf8.RuneCountInString(text)
	e := fieldError{Loc: loc, Input: text}
	switch {
	case s.MinLength != nil && n < *s.MinLength:
		e.Type, e.Msg, e.Ctx = "string_too_short", fmt.Sprintf("String should have at least %d characters", *s.MinLength), map[string]any{"min_length": *s.MinLength}
	case s.MaxLength != nil && n > *s.MaxLength:
		e.Type, e.Msg, e.Ctx = "string_too_long", fmt.Sprintf("String should have at most %d characters", *s.MaxLength), map[string]any{"max_length": *s.MaxLength}
	case s.Pattern != "":
		re, err := regexp.Compile(s.Pattern)
		if err != nil || re.MatchString(text) {
			return
		}
		e.Type, e.Msg, e.Ctx = "string_pattern_mismatch", "String should match pattern '"+s.Pattern+"'", map[string]any{"pattern": s.Pattern}
	default:
		return
	}
	if strings.HasSuffix(e.Msg, " 1 characters") {
		e.Msg = strings.TrimSuffix(e.Msg, "s")
	}
	*errs = append(*errs, e)
}

// explainNumber finds the first bound that a number breaks, in pydantic's order. What
// does not fit into the widest integer type is too large even where the schema has no
// bound.
func explainNumber(s *jsonschema.Schema, want string, loc []any, raw jsontext.Value, errs *[]fieldError) {
	e := fieldError{Loc: loc, Input: json.RawMessage(raw)}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return // out of range, which the decoder says
	}
	if want == "integer" {
		switch {
		case f != math.Trunc(f):
			e.Type, e.Msg = "int_from_float", "Input should be a valid integer, got a number with a fractional part"
		case !fitsInteger(raw):
			e.Type, e.Msg = "int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size"
		}
	}
	if e.Type == "" {
		for _, bound := range []struct {
			limit          *float64
			broken         func(limit float64) bool
			typ, text, key string
		}{
			{s.MultipleOf, func(m float64) bool { return math.Mod(f, m) != 0 }, "multiple_of", "a multiple of", "multiple_of"},
			{s.Maximum, func(m float64) bool { return f > m }, "less_than_equal", "less than or equal to", "le"},
			{s.ExclusiveMaximum, func(m float64) bool { return f >= m }, "less_than", "less than", "lt"},
			{s.Minimum, func(m float64) bool { return f < m }, "greater_than_equal", "greater than or equal to", "ge"},
			{s.ExclusiveMinimum, func(m float64) bool { return f <= m }, "greater_than", "greater than", "gt"},
		} {
			if bound.limit != nil && bound.broken(*bound.limit) {
				e.Type, e.Msg = bound.typ, "Input should be "+bound.text+" "+strconv.FormatFloat(*bound.limit, 'g', -1, 64)
				e.Ctx = map[string]any{bound.key: *bound.limit}
				break
			}
		}
	}
	if e.Type != "" {
		*errs = append(*errs, e)
	}
}

// fitsInteger reports whether an integral number, however it is spelled, fits into 64
// bits with or without a sign.
func fitsInteger(raw jsontext.Value) bool {
	n, ok := new(big.Float).SetPrec(128).SetString(string(raw))
	if !ok || n.MantExp(nil) > 64 {
		return false
	}
	i, _ := n.Int(nil)
	return i.IsInt64() || i.IsUint64()
}

func explainEnum(s *jsonschema.Schema, loc []any, raw jsontext.Value, errs *[]fieldError) {
	var (
		value any
		names []string
	)
	if wire.Unmarshal(raw, &value, wire.Float64) != nil || slices.ContainsFunc(s.Enum, func(e any) bool { return equalJSON(e, value) }) {
		return
	}
	for _, allowed := range s.Enum {
		if allowed == nil {
			continue // of an optional value, as in Python's Optional[Literal[…]]
		}
		if text, ok := allowed.(string); ok {
			names = append(names, "'"+text+"'")
		} else {
			names = append(names, fmt.Sprint(allowed))
		}
	}
	expected := names[len(names)-1]
	if len(names) > 1 {
		expected = strings.Join(names[:len(names)-1], ", ") + " or " + expected
	}
	*errs = append(*errs, fieldError{
		Type: "literal_error", Loc: loc, Msg: "Input should be " + expected, Input: json.RawMessage(raw),
		Ctx: map[string]any{"expected": expected},
	})
}

// equalJSON compares simple decoded values; an enum of others is for the full validator.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case string, bool, nil, float64:
		return a == b
	case int:
		return float64(a) == b
	}
	return true
}

// typeError names a value of the wrong kind as pydantic does, which tells a text that
// cannot be parsed from a value of another kind. Texts and numbers that pydantic would
// have taken for what is wanted are of the wrong kind here.
func typeError(want string, loc []any, raw jsontext.Value) fieldError {
	e := fieldError{Loc: loc, Input: json.RawMessage(raw)}
	kind := raw.Kind()
	var text string
	if kind == '"' {
		_ = wire.Unmarshal(raw, &text, wire.Float64) // it is valid
		text = strings.TrimSpace(text)
	}
	switch want {
	case "string":
		e.Type, e.Msg = "string_type", "Input should be a valid string"
	case "integer":
		e.Type, e.Msg = "int_type", "Input should be a valid integer"
		if _, err := strconv.ParseFloat(text, 64); kind == '"' && err != nil {
			e.Type, e.Msg = "int_parsing", e.Msg+", unable to parse string as an integer"
		}
	case "number":
		e.Type, e.Msg = "float_type", "Input should be a valid number"
		if _, err := strconv.ParseFloat(text, 64); kind == '"' && err != nil {
			e.Type, e.Msg = "float_parsing", e.Msg+", unable to parse string as a number"
		}
	case "boolean":
		e.Type, e.Msg = "bool_type", "Input should be a valid boolean"
		if mayMeanBool(kind, text, raw) {
			e.Type, e.Msg = "bool_parsing", e.Msg+", unable to interpret input"
		}
	case "array":
		e.Type, e.Msg = "list_type", "Input should be a valid list"
	case "null":
		e.Type, e.Msg = "none_required", "Input should be None"
	default:
		e.Type, e.Msg = "dict_type", "Input should be a valid dictionary"
	}
	return e
}

// mayMeanBool reports whether pydantic tries to read a value as a boolean, in vain.
func mayMeanBool(kind jsontext.Kind, text string, raw jsontext.Value) bool {
	switch kind {
	default:
		return false
	case '"':
		return !slices.Contains([]string{"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"}, strings.ToLower(text))
	case '0':
		f, err := strconv.ParseFloat(string(raw), 64)
		return err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<63 && f != 0 && f != 1
	}
}

// membersOf lists the members of a JSON object in order.
func membersOf(raw jsontext.Value) []wire.Member {
	var members []wire.Member
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return members
		}
		m := wire.Member{Name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return members
		}
		m.Value = value.Clone()
		members = append(members, m)
	}
	return members
}

// itemsOf walks over the items of a JSON array.
func itemsOf(raw jsontext.Value) func(yield func(jsontext.Value) bool) {
	return func(yield func(jsontext.Value) bool) {
		dec := jsontext.NewDecoder(bytes.NewReader(raw))
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		for dec.PeekKind() != ']' {
			item, err := dec.ReadValue()
			if err != nil || !yield(item.Clone()) {
				return
			}
		}
	}
}
