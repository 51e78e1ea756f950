package cli

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Whatever a schema says and a value looks like: what is accepted can be sent, and what
// was typed as a string stays one.
func FuzzArguments(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"properties":{"a":{"type":"integer"}}}`, "1"},
		{`{"properties":{"a":{"type":"string"}}}`, "1"},
		{`{"properties":{"a":{"anyOf":[{"type":"number"},{"type":"null"}]}}}`, "null"},
		{`{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/A"}}}`, "x"},
		{`{"properties":{"a":{"allOf":[{"enum":[1,"b",null,{}]}]}}}`, "{}"},
		{`{"properties":{"a":false},"additionalProperties":{"type":["array","boolean"]}}`, "[1e400]"},
		{`{"properties":{"a":{"type":"string"}}}`, "a\xffb"},
		{`true`, `"x"`}, {`[]`, "{"}, {`{"$ref":"#"}`, "1.0"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		if !json.Valid([]byte(schema)) {
			return // a server's schema is JSON when it gets here
		}
		args, err := parseArguments([]string{"a=" + value})
		if valid := utf8.ValidString(value); (err == nil) != valid { // JSON would have something else in its place
			t.Fatalf("%q: %v", value, err)
		}
		if err != nil {
			return
		}
		object, err := args.typed(&sdk.Tool{Name: "t", InputSchema: json.RawMessage(schema)})
		if err != nil {
			if !isA[*usageError](err) {
				t.Errorf("%v is not an error of usage", err)
			}
			return
		}
		if _, err := json.Marshal(object); err != nil {
			t.Errorf("%#v cannot be sent: %v", object, err)
		}
	})
}
