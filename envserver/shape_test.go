package envserver

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

type (
	shapeMove  string
	shapePoint struct {
		X     int     `json:"x"`
		Label *string `json:"label,omitempty"`
	}
	shapeAction struct {
		Text   string             `json:"text"`
		Small  int8               `json:"small,omitempty"`
		Size   *uint              `json:"size,omitempty"`
		Ratio  float64            `json:"ratio,omitempty"`
		Flag   bool               `json:"flag,omitempty"`
		Move   *shapeMove         `json:"move,omitempty"`
		Point  shapePoint         `json:"point,omitzero"`
		Points []shapePoint       `json:"points,omitempty"`
		Scores map[string]float64 `json:"scores,omitempty"`
		Pair   [2]int             `json:"pair,omitzero"`
		Any    any                `json:"any,omitempty"`
	}
)

func shapeValidator(t testing.TB) *validator {
	t.Helper()
	set, err := newSettings([]Option{WithSchema[shapeMove](`{"type":"string","enum":["up","down"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schemaOf(reflect.TypeFor[shapeAction](), set)
	if err != nil {
		t.Fatal(err)
	}
	v, err := newValidator(s)
	if err != nil {
		t.Fatal(err)
	}
	if v.shape.unknown || v.shape.fields["move"].unknown {
		t.Fatal("the shape does not know its own schema")
	}
	return v
}

// The quick look and the full validator agree on every JSON object; so does the list of
// what is wrong, which is empty for what is good.
func FuzzShape(f *testing.F) {
	for _, s := range []string{
		`{"text":"t"}`, `{ "text" : "t" , "small" : -128 , "size":0,"ratio":-1.5e-3,"flag":false,"move":"up","point":{"x":1},"points":[{"x":2,"label":null}],"scores":{"a":1},"pair":[1,2],"any":{"b":[]}}`,
		`{"text":"a\"b\\","move":null,"size":null}`, `{"text":"t","small":128}`, `{"text":"t","small":1.0}`, `{"text":"t","size":-1}`, `{"text":"t","points":null}`,
		`{"text":"t","points":[{"x":1.5}]}`, `{"text":"t","pair":[1]}`, `{"text":"t","pair":[1,2,3]}`, `{"text":"t","x":1}`, `{}`, `{"text":null}`, `{"text":"t","move":"left"}`,
		`{"text":"t","scores":{"a":null}}`, `{"text":"t","point":[]}`, `{"text":"t","point":{}}`, `{"text":"t","flag":0}`, `{"text":"t","any":null}`, `{"text":"t","small":1e2}`,
	} {
		f.Add([]byte(s))
	}
	v := shapeValidator(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !jsontext.Value(data).IsValid() || jsontext.Value(data).Kind() != '{' {
			return
		}
		inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return
		}
		accepts, full := v.shape.accepts(data), v.full.Validate(inst) == nil
		if accepts && !full {
			t.Errorf("%s: the quick look accepts what the validator refuses", data)
		}
		if !accepts && full && !bytes.ContainsAny(data, `\eE`) { // a name or number in an unusual spelling
			t.Errorf("%s: the quick look refuses what the validator accepts", data)
		}
		var errs []fieldError
		explainValue(v.schema, nil, data, &errs)
		tooLarge := len(errs) > 0 && errs[0].Type == "int_parsing_size" // which no schema says
		if full != (errs == nil) && !tooLarge && !bytes.ContainsAny(data, "eE") {
			t.Errorf("%s: valid is %v, found %v", data, full, errs)
		}
		if fixed, changed := integers(v.schema, data); changed {
			inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(fixed))
			if err != nil || (v.full.Validate(inst) == nil) != full {
				t.Errorf("%s became %s: %v", data, fixed, err)
			}
		}
	})
}
