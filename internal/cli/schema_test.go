package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tables for schemas as Python and Go servers publish them: alternatives,
// references, circles, bounds.
func TestSchemaTables(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "schema", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			printSchema(&got, &Streams{}, raw)
			golden := strings.TrimSuffix(file, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("got\n%s\nwant\n%s", &got, want)
			}
		})
	}
}

// Schemas that are none, or none that fits, are printed as they came.
func TestSchemaUnfit(t *testing.T) {
	for _, raw := range []string{`17`, `[]`, `{"properties": 3}`, `{"properties": {"a": 1}}`, `{"required": true}`, `{"exclusiveMinimum": true}`, `{"items": []}`} {
		var got bytes.Buffer
		printSchema(&got, &Streams{}, json.RawMessage(raw))
		if want := "  this cannot be shown as a table:\n  " + raw + "\n"; got.String() != want {
			t.Errorf("%s: got %q", raw, &got)
		}
	}
}

// A schema can describe itself without end in few bytes: the table and the time to
// make it stay small.
func TestSchemaBounded(t *testing.T) {
	level := func(keyword, format string) string {
		var defs []string
		for i := range 40 {
			var refs []string
			for range 10 {
				refs = append(refs, fmt.Sprintf(format, len(refs), i+1))
			}
			open, end := "[", "]"
			if keyword == "properties" {
				open, end = "{", "}"
			}
			defs = append(defs, fmt.Sprintf(`"D%d": {"%s": %s%s%s}`, i, keyword, open, strings.Join(refs, ","), end))
		}
		return `{"$ref": "#/$defs/D0", "$defs": {` + strings.Join(defs, ",") + `}}`
	}
	for name, raw := range map[string]string{
		"alternatives": level("anyOf", `{"title": "%d", "$ref": "#/$defs/D%d"}`),
		"parts":        level("allOf", `{"title": "%d", "$ref": "#/$defs/D%d"}`),
		"properties":   level("properties", `"p%d": {"$ref": "#/$defs/D%d"}`),
		"circle":       `{"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}`,
		"itself":       `{"properties": {"self": {"$ref": "#"}}, "title": "Self"}`,
		"nested":       strings.Repeat(`{"items": `, 500) + "{}" + strings.Repeat("}", 500),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			var got bytes.Buffer
			printSchema(&got, &Streams{}, json.RawMessage(raw))
			if lines := strings.Count(got.String(), "\n"); lines > maxRows*5 || got.Len() == 0 {
				t.Errorf("%d lines", lines)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestSchemaOfNull(t *testing.T) {
	var got bytes.Buffer
	printSchema(&got, &Streams{}, json.RawMessage(`{"anyOf": [{"type": "null"}], "properties": {"a": null, "b": {"anyOf": [null]}}}`))
	want := "  FIELD  TYPE  REQUIRED  DEFAULT  DESCRIPTION\n  a      any\n  b      any\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

func FuzzSchema(f *testing.F) {
	// Short ones: the fuzzer spends its time on making long ones shorter.
	for _, raw := range []string{
		`{"properties":{"a":{"type":"string","enum":["x"],"default":"y"}},"required":["a"]}`,
		`{"$ref":"#/$defs/A","$defs":{"A":{"anyOf":[{"$ref":"#/$defs/A"},{"type":"null"}]}}}`,
		`{"properties":{"a":{"items":{"properties":{"b":{}}}},"c":{"additionalProperties":{"type":["null","integer"]}}}}`,
		`{"allOf":[{"const":1}],"minimum":0,"maxItems":2,"prefixItems":[true,false]}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got bytes.Buffer
		printSchema(&got, &Streams{}, raw)
		for line := range strings.Lines(got.String()) {
			if text := strings.TrimRight(line, "\n"); strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("a control character in %q", text)
			}
		}
	})
}

func TestTableWraps(t *testing.T) {
	tab := table{header: []string{"A", "B"}, limits: []int{4, 0}}
	tab.add("abcdefghij", "one two three four five six seven eight nine")
	var got bytes.Buffer
	tab.print(&got, 34, func(s string) string { return s })
	want := `  A     B
  abcd  one two three four five
  efgh  six seven eight nine
  ij
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}
