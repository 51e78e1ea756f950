package envserver

import (
	"math/big"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// integers spells every integer of an action as Go's decoder reads it: 7.0 and 7e0,
// which are integers to JSON Schema and to Python, become 7. It reports false when
// there was nothing to change.
func integers(s *jsonschema.Schema, raw jsontext.Value) (jsontext.Value, bool) {
	if s == nil {
		return raw, false
	}
	switch raw.Kind() {
	default:
		return raw, false
	case '0':
		return spellInteger(s, raw)
	case '[':
		out, changed := []byte{'['}, false
		for item := range itemsOf(raw) {
			fixed, other := integers(s.Items, item)
			changed = changed || other
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, fixed...)
		}
		return append(out, ']'), changed
	case '{':
		out, changed := []byte{'{'}, false
		for _, m := range membersOf(raw) {
			of, known := s.Properties[m.Name]
			if !known {
				of = s.AdditionalProperties
			}
			fixed, other := integers(of, m.Value)
			changed = changed || other
			if len(out) > 1 {
				out = append(out, ',')
			}
			out, _ = jsontext.AppendQuote(out, m.Name) // it was decoded: it is valid
			out = append(append(out, ':'), fixed...)
		}
		return append(out, '}'), changed
	}
}

func spellInteger(s *jsonschema.Schema, raw jsontext.Value) (jsontext.Value, bool) {
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil || !slices.Contains(typesOf(s), "integer") || !fitsInteger(raw) {
		return raw, false
	}
	n, ok := new(big.Float).SetPrec(128).SetString(string(raw))
	if !ok || !n.IsInt() {
		return raw, false
	}
	i, _ := n.Int(nil)
	text := i.String()
	return jsontext.Value(text), text != string(raw)
}
