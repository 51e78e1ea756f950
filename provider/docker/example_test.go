package docker_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/provider/docker"
)

func ExampleFromImage() { //nolint:testableexamples // it needs an engine
	ctx := context.Background()
	env, err := docker.FromImage(ctx, echo.Spec, "registry.example.com/echo:1.2",
		docker.WithMemory(512<<20),
		docker.WithClient(openenv.WithStartTimeout(5*time.Minute)))
	if err != nil {
		log.Fatal(err)
	}
	err = openenv.Use(ctx, env, func(env *openenv.Client[echo.Action, echo.Observation, openenv.State]) error {
		if _, err := env.Reset(ctx); err != nil {
			return err
		}
		res, err := env.Step(ctx, echo.Action{Message: "hello"})
		fmt.Println(res.Observation.Echoed)
		return err
	})
	if err != nil {
		log.Print(err)
	}
}

func ExamplePrune() { //nolint:testableexamples // it needs an engine
	removed, err := docker.Prune(context.Background(), "", 24*time.Hour)
	for _, c := range removed {
		fmt.Println(c.Name, c.Image)
	}
	if err != nil {
		log.Print(err)
	}
}
