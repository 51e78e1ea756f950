package mcp_test

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/mcp"
)

// An environment in which adding is the whole game, and 7 the goal.
func ExampleNewEnvironment() {
	type terms struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	build := func(context.Context) (*mcp.Environment, error) {
		total := 0 // of this session
		server := sdk.NewServer(&sdk.Implementation{Name: "calculator", Version: "1.0.0"}, nil)
		err := mcp.AddTool(server, &sdk.Tool{Name: "add", Description: "Add two integers."},
			func(_ context.Context, _ *sdk.CallToolRequest, in terms) (*sdk.CallToolResult, int, error) {
				total = in.A + in.B
				return nil, total, nil
			})
		if err != nil {
			return nil, err
		}
		return mcp.NewEnvironment(server, mcp.WithReward(func(_ context.Context, call mcp.StepCall) (*float64, bool) {
			if call.Failure != nil || total != 7 {
				return nil, false
			}
			return new(1.0), true
		}))
	}
	srv, err := envserver.New(mcp.Spec, build, envserver.WithMaxSessions(64)) // an http.Handler
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = srv.Shutdown(context.Background()) // nothing runs

	env, err := build(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer env.Close()
	for _, b := range []int{2, 3} {
		res, err := env.Step(context.Background(), mcp.CallToolAction("add", openenv.Object{"a": 4, "b": b}))
		fmt.Println(res.Observation.Error == nil, res.Reward != nil, res.Done, err)
	}
	// Output:
	// true false false <nil>
	// true true true <nil>
}
