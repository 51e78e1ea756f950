package envserver

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// shape is the part of a JSON Schema that Go types produce, in a form that a text can
// be checked against without building a value. It answers only yes or no: what is
// wrong is for the full validator to say.
type shape struct {
	kinds    []jsontext.Kind // allowed kinds; empty allows all
	integer  bool
	minimum  *float64
	maximum  *float64
	minItems *int
	maxItems *int
	enum     [][]byte // texts as JSON spells them; nil allows all
	enumNull bool     // null is one of the enum
	fields   map[string]*shape
	required []string
	extra    *shape // properties that are not fields; nil allows none when fields is set
	items    *shape
	unknown  bool // the schema says more than a shape can
}

// newShape translates a schema. A keyword outside of the translation makes the shape
// unknown, which sends every value to the full validator.
func newShape(s *jsonschema.Schema) *shape {
	if s == nil {
		return &shape{}
	}
	sh := &shape{required: s.Required, minimum: s.Minimum, maximum: s.Maximum, minItems: s.MinItems, maxItems: s.MaxItems}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	for _, t := range types {
		sh.kinds = append(sh.kinds, kindsOf[t]...)
		sh.integer = sh.integer || t == "integer"
	}
	if slices.Contains(types, "number") {
		sh.integer = false
	}
	var plain bool
	sh.enum, sh.enumNull, plain = plainTexts(s.Enum)
	sh.unknown = saysMore(s) || !plain
	if s.Properties != nil || s.AdditionalProperties != nil {
		sh.fields = make(map[string]*shape, len(s.Properties))
		for name, p := range s.Properties {
			sh.fields[name] = newShape(p)
		}
		if !forbids(s.AdditionalProperties) {
			sh.extra = newShape(s.AdditionalProperties)
		}
	}
	if s.Items != nil {
		sh.items = newShape(s.Items)
	}
	return sh
}

var kindsOf = map[string][]jsontext.Kind{
	"object": {'{'}, "array": {'['}, "string": {'"'}, "number": {'0'}, "integer": {'0'},
	"boolean": {'t', 'f'}, "null": {'n'},
}

// forbids recognises the schema that nothing matches, which JSON writes as false.
func forbids(s *jsonschema.Schema) bool {
	return s != nil && s.Not != nil && len(s.Properties) == 0 && s.Type == ""
}

func saysMore(s *jsonschema.Schema) bool {
	return s.Ref != "" || s.Const != nil || s.ExclusiveMinimum != nil ||
		s.ExclusiveMaximum != nil || s.MultipleOf != nil || s.MinLength != nil || s.MaxLength != nil || s.Pattern != "" ||
		s.UniqueItems || s.Contains != nil || s.PrefixItems != nil ||
		s.MinProperties != nil || s.MaxProperties != nil || s.PatternProperties != nil || s.PropertyNames != nil ||
		s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil || s.If != nil || s.Format != "" ||
		s.DependentRequired != nil || s.DependentSchemas != nil || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil ||
		(s.Not != nil && !forbids(s))
}

// plainTexts spells an enum of texts that need no escapes.
func plainTexts(enum []any) (texts [][]byte, null, ok bool) {
	for _, e := range enum {
		if e == nil {
			null = true
			continue
		}
		text, isText := e.(string)
		if !isText || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			return nil, false, false
		}
		texts = append(texts, []byte(`"`+text+`"`))
	}
	return texts, null, true
}

// accepts reports whether data, which must be valid JSON, is of this shape. It looks
// at structure only and jumps over the contents of strings, which is what makes a
// second look at an action affordable.
func (sh *shape) accepts(data []byte) bool {
	rest, ok := sh.check(skipSpace(data))
	return ok && len(skipSpace(rest)) == 0
}

// check returns what follows the first value of b and whether that value fits.
func (sh *shape) check(b []byte) (rest []byte, ok bool) {
	kind := jsontext.Value(b).Kind()
	if sh.unknown || (len(sh.kinds) > 0 && !slices.Contains(sh.kinds, kind)) {
		return nil, false
	}
	if sh.enum != nil && kind != '"' {
		return skipValue(b), kind == 'n' && sh.enumNull
	}
	switch kind {
	default:
	case '{':
		if sh.fields != nil {
			return sh.checkObject(b)
		}
	case '[':
		if sh.items != nil || sh.minItems != nil || sh.maxItems != nil {
			return sh.checkArray(b)
		}
	case '"':
		rest = skipValue(b)
		return rest, sh.enum == nil || slices.ContainsFunc(sh.enum, func(e []byte) bool { return bytes.Equal(e, b[:len(b)-len(rest)]) })
	case '0':
		rest = skipValue(b)
		return rest, sh.checkNumber(b[:len(b)-len(rest)])
	}
	return skipValue(b), true
}

func (sh *shape) checkNumber(b []byte) bool {
	if !sh.integer && sh.minimum == nil && sh.maximum == nil {
		return true
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return err == nil && (!sh.integer || f == math.Trunc(f)) &&
		(sh.minimum == nil || f >= *sh.minimum) && (sh.maximum == nil || f <= *sh.maximum)
}

func (sh *shape) checkObject(b []byte) (rest []byte, ok bool) {
	missing := len(sh.required)
	b = skipSpace(b[1:])
	for b[0] != '}' {
		after := skipValue(b)
		name := b[1 : len(b)-len(after)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			return nil, false // an escaped name is rare: the full validator reads it
		}
		field, needed := sh.field(name)
		if field == nil {
			return nil, false
		}
		if needed {
			missing-- // a name does not come twice in an object that was decoded
		}
		if b, ok = field.check(skipSpace(skipSpace(after)[1:])); !ok {
			return nil, false
		}
		b = skipComma(b)
	}
	return b[1:], missing == 0
}

func (sh *shape) checkArray(b []byte) (rest []byte, ok bool) {
	n := 0
	b = skipSpace(b[1:])
	for b[0] != ']' {
		if sh.items == nil {
			b = skipValue(b)
		} else if b, ok = sh.items.check(b); !ok {
			return nil, false
		}
		b = skipComma(b)
		n++
	}
	return b[1:], (sh.minItems == nil || n >= *sh.minItems) && (sh.maxItems == nil || n <= *sh.maxItems)
}

// field returns the shape of a property and whether it is required.
func (sh *shape) field(name []byte) (field *shape, needed bool) {
	field = sh.fields[string(name)]
	if field == nil {
		return sh.extra, false
	}
	return field, slices.Contains(sh.required, string(name))
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

func skipComma(b []byte) []byte {
	b = skipSpace(b)
	if b[0] == ',' {
		b = skipSpace(b[1:])
	}
	return b
}

// skipValue returns what follows the first value of valid JSON.
func skipValue(b []byte) []byte {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += len(b[i:]) - len(skipString(b[i:])) - 1
			if depth == 0 {
				return b[i+1:]
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return b[i:] // the end of a number or a literal
			}
			if depth--; depth == 0 {
				return b[i+1:]
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return b[i:]
			}
		}
	}
	return nil
}

// skipString returns what follows the string that b begins with.
func skipString(b []byte) []byte {
	for i := 1; ; {
		i += bytes.IndexByte(b[i:], '"')
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		i++
		if escapes%2 == 0 {
			return b[i:]
		}
	}
}
