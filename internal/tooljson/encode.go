package tooljson

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// WrapMarker is the member of an output schema that says that the tool's value is not
// an object and stands in the member "result" of one (FastMCP, x-fastmcp-wrap-result).
const WrapMarker = "x-fastmcp-wrap-result"

// metaKey is the member of a result's metadata in which FastMCP repeats the marker.
const metaKey = "fastmcp"

// MarkWrapped notes in the metadata of a result that its value is wrapped, so that who
// reads it without the tool's schema unwraps it.
func MarkWrapped(result *mcp.CallToolResult) {
	if wrapped(result) {
		return
	}
	meta := make(mcp.Meta, len(result.Meta)+1)
	maps.Copy(meta, result.Meta)
	inner := make(map[string]any)
	if had, ok := meta[metaKey].(map[string]any); ok {
		maps.Copy(inner, had)
	}
	inner["wrap_result"] = true
	meta[metaKey] = inner
	result.Meta = meta
}

func wrapped(result *mcp.CallToolResult) bool {
	inner, _ := result.Meta[metaKey].(map[string]any)
	mark, _ := inner["wrap_result"].(bool)
	return mark
}

// EncodeTools writes a list of tools as the peer answers tools/list: every field, null
// where there is none (http_server.py, mcp_handler; model_dump of mcp.types.Tool).
func EncodeTools(tools []*mcp.Tool) (json.RawMessage, error) {
	type tool struct {
		Name         string          `json:"name"`
		Title        *string         `json:"title"`
		Description  *string         `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
		Icons        []mcp.Icon      `json:"icons"`
		Annotations  any             `json:"annotations"`
		Meta         any             `json:"meta"`
		Execution    any             `json:"execution"`
	}
	list := make([]tool, 0, len(tools))
	for _, t := range tools {
		in, out, err := schemas(t)
		if err != nil {
			return nil, err
		}
		item := tool{
			Name: t.Name, Title: optional(t.Title), Description: optional(t.Description),
			InputSchema: in, OutputSchema: out, Icons: t.Icons,
		}
		if t.Annotations != nil {
			item.Annotations = t.Annotations
		}
		if t.Meta != nil {
			item.Meta = map[string]any(t.Meta)
		}
		list = append(list, item)
	}
	return json.Marshal(list)
}

// EncodeStepTools writes a list of tools as a step's observation has it. The peer's
// model of it has these three fields and takes no other (mcp_types.py, Tool).
func EncodeStepTools(tools []*mcp.Tool) (json.RawMessage, error) {
	type tool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	list := make([]tool, 0, len(tools))
	for _, t := range tools {
		in, _, err := schemas(t)
		if err != nil {
			return nil, err
		}
		list = append(list, tool{t.Name, t.Description, in})
	}
	return json.Marshal(list)
}

func schemas(t *mcp.Tool) (in, out json.RawMessage, err error) {
	if in, err = json.Marshal(t.InputSchema); err != nil {
		return nil, nil, fmt.Errorf("tool %q: input schema: %w", t.Name, err)
	}
	if t.OutputSchema == nil {
		return in, nil, nil
	}
	if out, err = json.Marshal(t.OutputSchema); err != nil {
		return nil, nil, fmt.Errorf("tool %q: output schema: %w", t.Name, err)
	}
	return in, out, nil
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// EncodeResult writes a result as the peer answers a call (FastMCP's CallToolResult).
// Its member data is the structured content, unwrapped where the metadata says that it
// is wrapped; without any the text of a result that is one text; else null.
func EncodeResult(result *mcp.CallToolResult) (json.RawMessage, error) {
	content, err := encodeContent(result.Content)
	if err != nil {
		return nil, err
	}
	out := struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structured_content"`
		Meta       any               `json:"meta"`
		Data       json.RawMessage   `json:"data"`
		IsError    bool              `json:"is_error"`
	}{Content: content, IsError: result.IsError}
	if result.Meta != nil {
		out.Meta = map[string]any(result.Meta)
	}
	if result.StructuredContent != nil {
		if out.Structured, err = json.Marshal(result.StructuredContent); err != nil {
			return nil, fmt.Errorf("structured content: %w", err)
		}
	}
	if out.Data, err = dataOf(result, out.Structured); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func dataOf(result *mcp.CallToolResult, structured json.RawMessage) (json.RawMessage, error) {
	if structured != nil {
		if !wrapped(result) {
			return structured, nil
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(structured, &members); err != nil {
			return nil, fmt.Errorf("structured content is marked as wrapped and is no object: %w", err)
		}
		return members["result"], nil
	}
	if len(result.Content) == 1 {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			return json.Marshal(text.Text)
		}
	}
	return nil, nil
}

// encodeContent writes content blocks in the peer's spelling.
func encodeContent(blocks []mcp.Content) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, 0, len(blocks))
	for i, block := range blocks {
		raw, err := respell(block)
		if err != nil {
			return nil, fmt.Errorf("content %d: %w", i, err)
		}
		out = append(out, raw)
	}
	return out, nil
}

func respell(block mcp.Content) (json.RawMessage, error) {
	text, err := json.Marshal(block)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	unscore(members)
	if _, ok := members["annotations"]; !ok {
		members["annotations"] = json.RawMessage("null")
	}
	if inner, ok := members["resource"]; ok {
		var embedded map[string]json.RawMessage
		if err := json.Unmarshal(inner, &embedded); err != nil {
			return nil, err
		}
		unscore(embedded)
		if members["resource"], err = json.Marshal(embedded); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}

// unscore renames _meta and writes null where there is none.
func unscore(members map[string]json.RawMessage) {
	meta, ok := members["_meta"]
	if !ok {
		meta = json.RawMessage("null")
	}
	delete(members, "_meta")
	members["meta"] = meta
}
