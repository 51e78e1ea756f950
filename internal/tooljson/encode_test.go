package tooljson_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/internal/tooljson"
)

// What is encoded in the peer's spelling is decoded again without loss.
func TestResultsThereAndBack(t *testing.T) {
	annotated := &mcp.Annotations{Audience: []mcp.Role{"user"}, Priority: 0.5}
	for name, row := range map[string]struct {
		result *mcp.CallToolResult
		data   string
	}{
		"one text":  {&mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"}}}, `"a"`},
		"two texts": {&mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"}, &mcp.TextContent{Text: "b"}}}, ``},
		"nothing":   {&mcp.CallToolResult{Content: []mcp.Content{}}, ``},
		"object": {&mcp.CallToolResult{
			Content: []mcp.Content{&mcp.TextContent{Text: "a"}}, StructuredContent: map[string]any{"result": 1.0},
		}, `{"result":1}`},
		"wrapped": {&mcp.CallToolResult{
			Meta:    mcp.Meta{"fastmcp": map[string]any{"wrap_result": true}},
			Content: []mcp.Content{&mcp.TextContent{Text: "1"}}, StructuredContent: map[string]any{"result": 1.0},
		}, `1`},
		"every block": {&mcp.CallToolResult{IsError: true, Meta: mcp.Meta{"k": "v"}, Content: []mcp.Content{
			&mcp.TextContent{Text: "a", Annotations: annotated, Meta: mcp.Meta{"x": 1.0}},
			&mcp.ImageContent{Data: []byte{1, 2}, MIMEType: "image/png"},
			&mcp.AudioContent{Data: []byte{3}, MIMEType: "audio/wav"},
			&mcp.ResourceLink{URI: "file:///a", Name: "a", MIMEType: "text/plain"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", MIMEType: "text/plain", Text: "b", Meta: mcp.Meta{"y": 2.0}}},
		}}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := tooljson.EncodeResult(row.result)
			if err != nil {
				t.Fatal(err)
			}
			got, data, err := tooljson.DecodeResult(text)
			if err != nil {
				t.Fatal(err)
			}
			if string(data) != row.data {
				t.Errorf("data %s, want %s", data, row.data)
			}
			if !reflect.DeepEqual(*got, *row.result) { //nolint:govet // its error is never set here
				t.Errorf("got %+v from %s, want %+v", got, text, row.result)
			}
		})
	}
}

// The peer writes every field of a content block, in its own spelling.
func TestContentInThePeersSpelling(t *testing.T) {
	text, err := tooljson.EncodeResult(&mcp.CallToolResult{Content: []mcp.Content{
		&mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png", Meta: mcp.Meta{"a": 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"content":[{"annotations":null,"data":"AQ==","meta":{"a":1},"mimeType":"image/png","type":"image"}],"structured_content":null,"meta":null,"data":null,"is_error":false}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// Every field of a tool survives the answer to tools/list.
func TestToolsThereAndBack(t *testing.T) {
	yes := true
	tool := &mcp.Tool{
		Name: "a", Title: "A", Description: "does a", Meta: mcp.Meta{"k": []any{"v"}},
		InputSchema: map[string]any{"type": "object"}, OutputSchema: map[string]any{"type": "object", tooljson.WrapMarker: true},
		Annotations: &mcp.ToolAnnotations{Title: "t", ReadOnlyHint: true, DestructiveHint: &yes},
		Icons:       []mcp.Icon{{Source: "https://example.com/a.png", MIMEType: "image/png"}},
	}
	text, err := tooljson.EncodeTools([]*mcp.Tool{tool, {Name: "b", InputSchema: map[string]any{"type": "object"}}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tooljson.DecodeTools(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !reflect.DeepEqual(got[0], tool) || got[1].Name != "b" {
		t.Errorf("%s came back as %+v", text, got[0])
	}
	if v := reflect.ValueOf(*tool); v.NumField() != 8 {
		t.Errorf("a tool of the SDK has %d fields, this package knows 8", v.NumField())
	}
	step, err := tooljson.EncodeStepTools([]*mcp.Tool{tool})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"name":"a","description":"does a","input_schema":{"type":"object"}}]`; string(step) != want {
		t.Errorf("got %s, want %s", step, want)
	}
}

func TestMarkWrappedKeepsOtherMetadata(t *testing.T) {
	shared := mcp.Meta{"k": "v", "fastmcp": map[string]any{"tags": "x"}}
	result := &mcp.CallToolResult{Meta: shared}
	tooljson.MarkWrapped(result)
	want := mcp.Meta{"k": "v", "fastmcp": map[string]any{"tags": "x", "wrap_result": true}}
	if !reflect.DeepEqual(result.Meta, want) {
		t.Errorf("got %v", result.Meta)
	}
	if _, changed := shared["fastmcp"].(map[string]any)["wrap_result"]; changed {
		t.Error("the metadata given was changed")
	}
}

// A result that can be decoded can be encoded, and is the same again.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"3","annotations":null,"meta":null}],"structured_content":{"result":3},"meta":{"fastmcp":{"wrap_result":true}},"data":3,"is_error":false}`))
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"uri":"a","text":"b","meta":{}}}],"isError":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		result, _, err := tooljson.DecodeResult(text)
		if err != nil {
			return
		}
		out, err := tooljson.EncodeResult(result)
		if err != nil {
			return // structured content that says it is wrapped and is not
		}
		again, _, err := tooljson.DecodeResult(out)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, out, err)
		}
		first, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if string(first) != string(second) {
			t.Errorf("%s became %s", first, second)
		}
	})
}
