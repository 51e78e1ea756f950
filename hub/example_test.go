package hub_test

import (
	"context"
	"fmt"
	"log"

	"github.com/openenv-go/openenv/hub"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/swarm"
)

func ExampleOpen() { //nolint:testableexamples // it needs the network
	ctx := context.Background()
	env, err := hub.Open(ctx, "openenv/echo_env")
	if err != nil {
		log.Print(err)
		return
	}
	defer env.Close()
	res, err := env.Reset(ctx)
	fmt.Println(res.Observation, err)
}

func ExampleWithProvider() { //nolint:testableexamples // it needs the network
	onSwarm := hub.WithProvider(func(src hub.Source) provider.Provider { return swarm.New(src.Image) })
	env, err := hub.Open(context.Background(), "openenv/echo_env", onSwarm)
	if err != nil {
		log.Print(err)
		return
	}
	defer env.Close()
}

func ExampleParseSpace() {
	sp, err := hub.ParseSpace("openenv/echo_env")
	fmt.Println(sp.Image(hub.DefaultRegistry, hub.DefaultTag), err)
	// Output: registry.hf.space/openenv-echo-env:latest <nil>
}
