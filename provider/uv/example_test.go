package uv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/provider/uv"
)

func ExampleNew() { //nolint:testableexamples // the project is the reader's
	p := uv.New("git+https://github.com/org/envs@v1.2#subdirectory=echo_env",
		uv.WithEnv(map[string]string{"GAME": "easy"}),
		uv.WithLog(func(line string) { log.Print(line) }),
	)
	ctx := context.Background()
	env, err := openenv.FromProvider(ctx, openenv.Generic, p)
	if err != nil {
		log.Fatal(err)
	}
	err = openenv.Use(ctx, env, func(env *openenv.GenericClient) error {
		if _, err := env.Reset(ctx); err != nil {
			return err
		}
		res, err := env.Step(ctx, openenv.Object{"message": "hi"})
		fmt.Println(res.Observation["echoed"])
		return err
	}) // and server and clone are gone
	if err != nil {
		log.Fatal(err)
	}
}
