package envserver

import (
	"bytes"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// shape is the part of a JSON Schema that Go types produce, in a form that a value
// can be checked against token by token without building it. It answers only yes or
// no: what is wrong is for the full validator to say.
type shape struct {
	kinds    []jsontext.Kind // allowed kinds; empty allows all
	integer  bool
	minimum  *float64
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
	sh := &shape{required: s.Required, minimum: s.Minimum}
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
	sh.unknown = saysMore(s)
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
	return s.Ref != "" || s.Enum != nil || s.Const != nil || s.Maximum != nil || s.ExclusiveMinimum != nil ||
		s.ExclusiveMaximum != nil || s.MultipleOf != nil || s.MinLength != nil || s.MaxLength != nil || s.Pattern != "" ||
		s.MinItems != nil || s.MaxItems != nil || s.UniqueItems || s.Contains != nil || s.PrefixItems != nil ||
		s.MinProperties != nil || s.MaxProperties != nil || s.PatternProperties != nil || s.PropertyNames != nil ||
		s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil || s.If != nil || s.Format != "" ||
		s.DependentRequired != nil || s.DependentSchemas != nil || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil ||
		(s.Not != nil && !forbids(s))
}

// checker is a decoder over bytes that is used again and again.
type checker struct {
	dec *jsontext.Decoder
	buf *bytes.Buffer
}

var checkers = sync.Pool{New: func() any { return &checker{dec: new(jsontext.Decoder)} }}

// accepts reports whether data is one JSON value of this shape.
func (sh *shape) accepts(data []byte) bool {
	c, _ := checkers.Get().(*checker)
	defer checkers.Put(c)
	c.buf = bytes.NewBuffer(data)
	c.dec.Reset(c.buf)
	if !sh.check(c.dec) {
		return false
	}
	return int(c.dec.InputOffset()) == len(bytes.TrimRight(data, " \t\r\n"))
}

func (sh *shape) check(dec *jsontext.Decoder) bool {
	kind := dec.PeekKind()
	if sh.unknown || (len(sh.kinds) > 0 && !slices.Contains(sh.kinds, kind)) {
		return false
	}
	switch kind {
	case '{':
		return sh.checkObject(dec)
	case '[':
		return sh.checkArray(dec)
	case '0':
		tok, err := dec.ReadToken()
		if err != nil {
			return false
		}
		f, err := tok.Float()
		return err == nil && (!sh.integer || f == float64(int64(f))) && (sh.minimum == nil || f >= *sh.minimum)
	}
	return dec.SkipValue() == nil
}

func (sh *shape) checkObject(dec *jsontext.Decoder) bool {
	if sh.fields == nil {
		return dec.SkipValue() == nil
	}
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	missing := len(sh.required)
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return false
		}
		name := tok.String()
		field := sh.fields[name]
		if field == nil {
			if field = sh.extra; field == nil {
				return false
			}
		}
		if slices.Contains(sh.required, name) {
			missing-- // the decoder refuses a name that comes twice
		}
		if !field.check(dec) {
			return false
		}
	}
	_, err := dec.ReadToken()
	return err == nil && missing == 0
}

func (sh *shape) checkArray(dec *jsontext.Decoder) bool {
	if sh.items == nil {
		return dec.SkipValue() == nil
	}
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() != ']' {
		if dec.PeekKind() == 0 || !sh.items.check(dec) {
			return false
		}
	}
	_, err := dec.ReadToken()
	return err == nil
}
