package swarm_test

import (
	"context"
	"log"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/provider/swarm"
)

func Example() { //nolint:testableexamples // it needs a swarm
	ctx := context.Background()
	p := swarm.New("registry.example.com/echo:1.2", swarm.WithReplicas(3))
	env, err := openenv.FromProvider(ctx, echo.Spec, p)
	if err != nil {
		log.Print(err)
		return
	}
	defer env.Close()
	if err := p.Scale(ctx, 5); err != nil {
		log.Print(err)
	}
}
