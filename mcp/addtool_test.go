package mcp_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/mcp"
)

func returns[Out any](t *testing.T, s *sdk.Server, name string, out Out) {
	t.Helper()
	must(t, mcp.AddTool(s, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, Out, error) {
		return nil, out, nil
	}))
}

// Every type of output arrives as the value that it is, and its text is that value's.
func TestOutputsOfEveryType(t *testing.T) {
	leak.Check(t)
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	returns(t, s, "int", 7)
	returns(t, s, "text", "seven")
	returns(t, s, "bool", false)
	returns(t, s, "list", []string{"a", "b"})
	returns(t, s, "time", time.Unix(0, 0).UTC())
	returns(t, s, "struct", point{X: 1})
	returns(t, s, "pointer", &point{X: 2})
	returns(t, s, "map", map[string]int{"a": 1})
	returns[any](t, s, "any", map[string]any{"a": 1})
	s.AddTool(&sdk.Tool{Name: "empty", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return new(sdk.CallToolResult), nil
	})
	env, err := mcp.NewEnvironment(s)
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	for _, row := range []struct{ tool, data, text string }{
		{"int", `7`, "7"},
		{"text", `"seven"`, "seven"},
		{"bool", `false`, "false"},
		{"list", `["a","b"]`, `["a","b"]`},
		{"time", `"1970-01-01T00:00:00Z"`, `"1970-01-01T00:00:00Z"`},
		{"struct", `{"x":1}`, `{"x":1}`},
		{"pointer", `{"x":2}`, `{"x":2}`},
		{"map", `{"a":1}`, `{"a":1}`},
		{"any", `{"a":1}`, `{"a":1}`},
		{"empty", `null`, ""},
	} {
		res, err := env.Step(t.Context(), mcp.CallToolAction(row.tool, nil))
		if err != nil || res.Observation.Error != nil {
			t.Errorf("%s: %+v, %v", row.tool, res.Observation.Error, err)
			continue
		}
		var got struct {
			Data    json.RawMessage `json:"data"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if err := json.Unmarshal(res.Observation.Result, &got); err != nil {
			t.Fatal(err)
		}
		text := ""
		if len(got.Content) == 1 {
			text = got.Content[0].Text
		}
		if string(got.Data) != row.data || text != row.text {
			t.Errorf("%s: %s, want data %s and text %s", row.tool, res.Observation.Result, row.data, row.text)
		}
	}
}

// What the SDK panics at is an error.
func TestToolThatCannotBeAdded(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	err := mcp.AddTool(s, &sdk.Tool{Name: "a"}, func(context.Context, *sdk.CallToolRequest, int) (*sdk.CallToolResult, int, error) {
		return nil, 0, nil
	})
	if err == nil {
		t.Error("an input that is no object was taken")
	}
	err = mcp.AddTool(s, &sdk.Tool{Name: "a"}, func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, func(), error) {
		return nil, nil, nil
	})
	if err == nil {
		t.Error("an output without a schema was taken")
	}
}
