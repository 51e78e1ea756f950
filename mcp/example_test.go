package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/openenv-go/openenv/envs/files"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/mcp"
)

func ExampleClient() {
	srv, err := envserver.New(mcp.Spec, files.New)
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(srv)
	defer server.Close()

	ctx := context.Background()
	env, err := mcp.New(server.URL)
	if err != nil {
		panic(err)
	}
	defer env.Close()

	tools, err := env.ListTools(ctx)
	if err != nil {
		panic(err)
	}
	for _, tool := range tools {
		fmt.Println(tool.Name)
	}
	_, err = env.CallTool(ctx, "write", map[string]any{"path": "../secret"})
	if failed, ok := errors.AsType[*mcp.ToolError](err); ok {
		fmt.Println(failed.Kind)
	}
	// Output:
	// list
	// read
	// search
	// write
	// invalid_args
}
