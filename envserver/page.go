package envserver

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/openenv-go/openenv"
)

//go:embed page.html
var pageSource string

// renderPage makes the page of GET /docs: what the environment is, its routes and
// schemas, and a console for one session. It needs nothing from elsewhere.
func renderPage(k *kind, about openenv.Metadata, set *settings) ([]byte, error) {
	page, err := template.New("docs").Parse(pageSource)
	if err != nil {
		return nil, err
	}
	type row struct{ Method, Path, Summary string }
	var rows []row
	for _, r := range routesOf(set) {
		rows = append(rows, row{strings.ToUpper(r.method), r.path, r.summary})
	}
	type titled struct{ Title, JSON string }
	var all []titled
	for _, s := range []struct {
		title  string
		schema *jsonschema.Schema
	}{{"Action", k.schemas.action}, {"Observation", k.schemas.observation}, {"Reset observation", k.schemas.reset}, {"State", k.schemas.state}} {
		text, err := json.MarshalIndent(s.schema, "", "  ")
		if err != nil {
			return nil, err
		}
		all = append(all, titled{s.title, string(text)})
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"About": about, "Routes": rows, "Schemas": all, "Sessions": set.maxSessions, "Mode": set.mode, "Example": exampleAction(k.schemas.action),
	})
	return out.Bytes(), err
}

// exampleAction is an action with a plain value for each required field.
func exampleAction(s *jsonschema.Schema) string {
	example := make(map[string]any)
	for _, name := range s.Required {
		p := s.Properties[name]
		switch {
		case p == nil:
			example[name] = nil
		case len(p.Enum) > 0:
			example[name] = p.Enum[0]
		case p.Type == "string":
			example[name] = "hello"
		case p.Type == "boolean":
			example[name] = true
		case p.Type == "array":
			example[name] = []any{}
		case p.Type == "object":
			example[name] = map[string]any{}
		default:
			example[name] = 1
		}
	}
	text, err := json.Marshal(example)
	if err != nil {
		return "{}"
	}
	return string(text)
}
