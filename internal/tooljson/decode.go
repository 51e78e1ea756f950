package tooljson

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// standard are the members whose names differ from the standard's.
var standard = map[string]string{
	"input_schema":       "inputSchema",
	"output_schema":      "outputSchema",
	"structured_content": "structuredContent",
	"is_error":           "isError",
	"meta":               "_meta",
	"mime_type":          "mimeType",
}

// translate gives the members of an object their standard names and drops nulls.
func translate(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	if members == nil {
		return nil, fmt.Errorf("%s is not an object", raw)
	}
	out := make(map[string]json.RawMessage, len(members))
	for name, value := range members {
		if string(value) == "null" {
			continue
		}
		if to, ok := standard[name]; ok {
			name = to
		}
		out[name] = value
	}
	return out, nil
}

// DecodeTools reads a list of tools in the standard's spelling or in the peer's.
func DecodeTools(raw json.RawMessage) ([]*mcp.Tool, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	tools := make([]*mcp.Tool, 0, len(list))
	for i, item := range list {
		tool, err := decodeTool(item)
		if err != nil {
			return nil, fmt.Errorf("tool %d: %w", i, err)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

func decodeTool(raw json.RawMessage) (*mcp.Tool, error) {
	members, err := translate(raw)
	if err != nil {
		return nil, err
	}
	tool := new(mcp.Tool)
	if err := reread(members, tool); err != nil {
		return nil, err
	}
	if tool.Name == "" {
		return nil, fmt.Errorf("%s has no name", raw)
	}
	return tool, nil
}

// DecodeResult reads a tool's result, and beside it the member data, in which the peer
// puts the result's value; nil when there is none.
func DecodeResult(raw json.RawMessage) (*mcp.CallToolResult, json.RawMessage, error) {
	members, err := translate(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("result: %w", err)
	}
	data := members["data"]
	delete(members, "data")
	if content, ok := members["content"]; ok {
		if members["content"], err = translateAll(content); err != nil {
			return nil, nil, fmt.Errorf("result content: %w", err)
		}
	}
	result := new(mcp.CallToolResult)
	if err := reread(members, result); err != nil {
		return nil, nil, fmt.Errorf("result: %w", err)
	}
	return result, data, nil
}

// translateAll translates the content blocks of a result, and what they embed.
func translateAll(raw json.RawMessage) (json.RawMessage, error) {
	var blocks []json.RawMessage
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, err
	}
	for i, block := range blocks {
		members, err := translate(block)
		if err != nil {
			return nil, err
		}
		if inner, ok := members["resource"]; ok {
			embedded, err := translate(inner)
			if err != nil {
				return nil, err
			}
			if members["resource"], err = json.Marshal(embedded); err != nil {
				return nil, err
			}
		}
		if blocks[i], err = json.Marshal(members); err != nil {
			return nil, err
		}
	}
	return json.Marshal(blocks)
}

func reread(members map[string]json.RawMessage, into any) error {
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
