package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/openenv-go/openenv/mcp"
)

func ExampleClient() {
	ctx := context.Background()
	env, err := mcp.New("http://localhost:8000")
	if err != nil {
		log.Fatal(err)
	}
	defer env.Close()

	tools, err := env.ListTools(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, tool := range tools {
		fmt.Println(tool.Name, tool.Description)
	}
	sum, err := mcp.Call[int](ctx, env, "add", map[string]int{"a": 2, "b": 5})
	if failed, ok := errors.AsType[*mcp.ToolError](err); ok && failed.Kind == mcp.KindInvalidArgs {
		log.Fatal("the tool wants other arguments: ", failed.Message)
	}
	fmt.Println(sum, err)
}
