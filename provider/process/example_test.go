package process_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/provider/process"
)

func ExampleNew() { //nolint:testableexamples // the program is the reader's
	p := process.New([]string{"./echo-server", "--listen", "127.0.0.1:{port}"},
		process.WithEnv(map[string]string{"GAME": "easy"}),
		process.WithReadyTimeout(20*time.Second),
		process.WithLog(func(line string) { log.Print(line) }),
	)
	ctx := context.Background()
	env, err := openenv.FromProvider(ctx, echo.Spec, p)
	if err != nil {
		log.Fatal(err) // with exit code and last words, if it was the command's end
	}
	err = openenv.Use(ctx, env, func(env *openenv.Client[echo.Action, echo.Observation, openenv.State]) error {
		if _, err := env.Reset(ctx); err != nil {
			return err
		}
		res, err := env.Step(ctx, echo.Action{Message: "hi"})
		fmt.Println(res.Observation.Echoed)
		return err
	}) // and the command is gone
	if err != nil {
		log.Fatal(err)
	}
}
