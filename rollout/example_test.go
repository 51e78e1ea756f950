package rollout_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/gridworld"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/record"
)

// A policy of one's own plays an environment that is served in this process.
func ExampleRun() {
	srv, err := envserver.New(gridworld.Spec, gridworld.New, envserver.WithMaxSessions(4))
	if err != nil {
		fmt.Println(err)
		return
	}
	moves := []gridworld.Move{"up", "down", "left", "right"}
	drunk := rollout.Func("drunk", func(_ context.Context, rng *rand.Rand, _ openenv.StepResult[gridworld.Observation]) (gridworld.Action, error) {
		return gridworld.Action{Move: moves[rng.IntN(len(moves))]}, nil
	})
	run, err := rollout.Run(context.Background(), gridworld.Spec, rollout.Embedded(srv), drunk,
		rollout.Config{Episodes: 20, Sessions: 4, Seed: 1, Limits: record.Limits{Steps: 50}})
	if err != nil {
		fmt.Println(err)
		return
	}
	steps := 0
	for e, err := range run.Episodes() {
		if err != nil {
			fmt.Println(err)
			break
		}
		steps += e.Steps
	}
	summary, err := run.Wait()
	fmt.Println(summary.Episodes, summary.Steps == steps, err)
	// Output: 20 true <nil>
}
