package cli

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/mcp"
)

type (
	addends struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	reason struct {
		Why string `json:"why"`
	}
	nothing struct{}
)

// showSchema has an argument of every kind.
const showSchema = `{"type":"object","required":["text"],"additionalProperties":false,"properties":{
	"text":{"type":"string","description":"What to show."},
	"limit":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null},
	"ratio":{"type":"number"},"flag":{"type":"boolean"},
	"tags":{"type":"array","items":{"type":"string"}},
	"either":{"type":["string","number"]},"level":{"enum":["low",3]},
	"point":{"$ref":"#/$defs/Point"},"any":{}},
	"$defs":{"Point":{"type":"object","properties":{"x":{"type":"integer"}}}}}`

// toolServer has the tools that the scripts call.
func toolServer() (*sdk.Server, error) {
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "show", Title: "Show", InputSchema: json.RawMessage(showSchema)},
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{StructuredContent: req.Params.Arguments, Content: []sdk.Content{&sdk.TextContent{Text: "shown"}}}, nil
		})
	s.AddTool(&sdk.Tool{Name: "picture", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "look:"}, &sdk.ImageContent{Data: []byte{1}, MIMEType: "image/png"}}}, nil
		})
	return s, errors.Join(
		mcp.AddTool(s, &sdk.Tool{Name: "add", Description: "Add two integers.\n\nMore of it."},
			func(_ context.Context, _ *sdk.CallToolRequest, in addends) (*sdk.CallToolResult, int, error) {
				return nil, in.A + in.B, nil
			}),
		mcp.AddTool(s, &sdk.Tool{Name: "fail"},
			func(_ context.Context, _ *sdk.CallToolRequest, in reason) (*sdk.CallToolResult, string, error) {
				return nil, "", errors.New(in.Why)
			}),
		mcp.AddTool(s, &sdk.Tool{Name: "poem"},
			func(context.Context, *sdk.CallToolRequest, nothing) (*sdk.CallToolResult, string, error) {
				return nil, "one\ntwo", nil
			}),
		mcp.AddTool(s, &sdk.Tool{Name: "wait"},
			func(ctx context.Context, _ *sdk.CallToolRequest, _ nothing) (*sdk.CallToolResult, string, error) {
				<-ctx.Done()
				return nil, "", ctx.Err()
			}))
}

// startTools serves tools, whose calls are worth 0.5 and end the episode when they are
// steps.
func startTools(t *testing.T, sessions int, opts ...envserver.Option) (url string, srv *envserver.Server) {
	t.Helper()
	half := 0.5
	build := func(context.Context) (*mcp.Environment, error) {
		s, err := toolServer()
		if err != nil {
			return nil, err
		}
		return mcp.NewEnvironment(s, mcp.WithReward(func(context.Context, mcp.StepCall) (*float64, bool) { return &half, true }))
	}
	opts = append(opts, envserver.WithMaxSessions(sessions), envserver.WithConcurrentSessions(), envserver.WithMetadata(openenv.Metadata{Name: "toolbox"}))
	srv, err := envserver.New(mcp.Spec, build, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, srv, func() { _ = srv.Shutdown(context.Background()) }), srv
}

// busyTools is a tool server whose only session is taken.
func busyTools(t *testing.T) (url string) {
	t.Helper()
	url, _ = startTools(t, 1)
	client, err := mcp.New(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return url
}
