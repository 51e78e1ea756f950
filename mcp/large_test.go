package mcp_test

import (
	"context"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/mcp"
)

// Arguments and results may be as large as the limits for messages allow.
func TestLargeArgumentsAndResults(t *testing.T) {
	leak.Check(t)
	const large = 17 << 20 // the SDK's own limit is 16 MiB
	srv, err := envserver.New(mcp.Spec, func(context.Context) (*mcp.Environment, error) {
		server := sdk.NewServer(&sdk.Implementation{Name: "large", Version: "1"}, nil)
		server.AddTool(&sdk.Tool{Name: "size", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{StructuredContent: map[string]any{"size": len(req.Params.Arguments)}}, nil
		})
		server.AddTool(&sdk.Tool{Name: "page", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("x", large)}}}, nil
		})
		return mcp.NewEnvironment(server)
	})
	must(t, err)
	s := serveLoopback(t, srv)
	c := newClient(t, s.URL())
	size := func(args any) any {
		got, err := c.CallTool(t.Context(), "size", args)
		if err != nil {
			t.Error(err)
		}
		return at(got, "size")
	}
	if got, want := size(reason{strings.Repeat("y", large)}), float64(large+len(`{"why":""}`)); got != want {
		t.Errorf("%v bytes of arguments arrived, want %v", got, want)
	}
	if text, err := mcp.Call[string](t.Context(), c, "page", nil); err != nil || len(text) != large {
		t.Errorf("%d bytes of result arrived, %v", len(text), err)
	}
	if got := size(nil); got != 2.0 {
		t.Errorf("afterwards: %v", got)
	}
}
