package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
)

type demoOptions struct {
	streams  *Streams
	sessions int
	steps    int
	json     bool
}

func newDemo(s *Streams) *cobra.Command {
	o := &demoOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a server and many episodes in this process",
		Long: `demo serves the echo environment on a loopback port of this process and plays it:
one episode with blocking calls, one with futures, and then many at once, each in a
session of its own. Every reply is checked. Nothing else is needed, no network either.

The mean reward is that of an episode, the sum over its steps.`,
		Example: `  oenv demo
  oenv demo --sessions 256 --steps 100
  oenv demo --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return untilInterrupt(cmd.Context(), o.run)
		},
	}
	cmd.Flags().IntVar(&o.sessions, "sessions", 64, "episodes that run at once")
	cmd.Flags().IntVar(&o.steps, "steps", 20, "steps of each episode")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	return cmd
}

// tally is the result of one part of the demo.
type tally struct {
	Face           string  `json:"face"`
	Episodes       int     `json:"episodes"`
	Steps          int     `json:"steps"`
	MeanReward     float64 `json:"mean_reward"`
	Seconds        float64 `json:"seconds"`
	StepsPerSecond float64 `json:"steps_per_second"`
}

func (o *demoOptions) run(ctx context.Context) error {
	switch {
	case o.sessions < 1:
		return usagef("--sessions: %d is below 1", o.sessions)
	case o.steps < 1:
		return usagef("--steps: %d is below 1", o.steps)
	}
	// One slot for the blocking session, which stays open, and one to spare for the
	// session that the server has not yet seen leave.
	srv, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(o.sessions+2))
	if err != nil {
		return err
	}
	env, err := openenv.FromProvider(ctx, echo.Spec, envserver.Embedded(srv))
	if err != nil {
		return err
	}
	var tallies []tally
	err = openenv.Use(ctx, env, func(env *demoClient) error {
		tallies, err = o.play(ctx, env)
		return err
	})
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(o.streams.Out).Encode(map[string]any{"parts": tallies})
	}
	return printTallies(o.streams.Out, tallies)
}

type demoClient = openenv.Client[echo.Action, echo.Observation, openenv.State]

// play runs the three parts.
func (o *demoOptions) play(ctx context.Context, env *demoClient) ([]tally, error) {
	parts := []struct {
		face     string
		episodes int
		run      func(context.Context, *demoClient, *counter) (float64, error)
	}{
		{"blocking calls", 1, o.blockingEpisode},
		{"futures", 1, o.futureEpisode},
		{"futures, concurrent", o.sessions, o.manyEpisodes},
	}
	var tallies []tally
	for _, part := range parts {
		count := &counter{}
		stop := o.streams.progress(func() string {
			return fmt.Sprintf("%s: %d/%d episodes, %d steps", part.face, count.episodes.Load(), part.episodes, count.steps.Load())
		})
		start := time.Now()
		reward, err := part.run(ctx, env, count)
		elapsed := time.Since(start).Seconds()
		stop()
		if err != nil {
			return nil, fmt.Errorf("demo: %s: %w", part.face, err)
		}
		steps := int(count.steps.Load())
		tallies = append(tallies, tally{
			Face: part.face, Episodes: part.episodes, Steps: steps,
			MeanReward: reward / float64(part.episodes),
			Seconds:    elapsed, StepsPerSecond: float64(steps) / elapsed,
		})
	}
	return tallies, nil
}

// counter is what the progress line tells while episodes run.
type counter struct{ episodes, steps atomic.Int64 }

// blockingEpisode plays one episode with the first face and returns its reward.
func (o *demoOptions) blockingEpisode(ctx context.Context, env *demoClient, count *counter) (float64, error) {
	if _, err := env.Reset(ctx, openenv.Seed(1)); err != nil {
		return 0, err
	}
	var total float64
	for i := range o.steps {
		message := demoMessage(i)
		res, err := env.Step(ctx, echo.Action{Message: message})
		if err != nil {
			return 0, err
		}
		reward, err := checkEcho(message, res)
		if err != nil {
			return 0, err
		}
		total += reward
		count.steps.Add(1)
	}
	state, err := env.State(ctx)
	if err != nil {
		return 0, err
	}
	if state.StepCount != o.steps {
		return 0, fmt.Errorf("the environment counted %d steps, not %d", state.StepCount, o.steps)
	}
	count.episodes.Add(1)
	return total, nil
}

// futureEpisode plays one episode with the second face: on a session of its own,
// since env belongs to the first.
func (o *demoOptions) futureEpisode(ctx context.Context, env *demoClient, count *counter) (total float64, err error) {
	session, err := env.Async().NewSession().Await(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if _, err := session.Async().Reset(openenv.Seed(1)).Await(ctx); err != nil {
		return 0, err
	}
	for first := 0; first < o.steps; first += demoBatch {
		reward, err := futureSteps(ctx, session, first, min(first+demoBatch, o.steps), count)
		if err != nil {
			return 0, err
		}
		total += reward
	}
	count.episodes.Add(1)
	return total, nil
}

// demoBatch is how many steps wait for their turn at once.
const demoBatch = 64

// futureSteps describes the steps from first to last, runs them, and returns the sum
// of their rewards.
func futureSteps(ctx context.Context, session *demoClient, first, last int, count *counter) (total float64, err error) {
	var steps []*openenv.Future[openenv.StepResult[echo.Observation]]
	for i := first; i < last; i++ {
		steps = append(steps, session.Async().Step(echo.Action{Message: demoMessage(i)}))
	}
	results, err := openenv.AwaitAll(ctx, steps...)
	if err != nil {
		return 0, err
	}
	for i, res := range results {
		reward, err := checkEcho(demoMessage(first+i), res)
		if err != nil {
			return 0, err
		}
		total += reward
		count.steps.Add(1)
	}
	return total, nil
}

// manyEpisodes plays an episode in each of many sessions at once, each a single
// future, and returns their rewards' sum.
func (o *demoOptions) manyEpisodes(ctx context.Context, env *demoClient, count *counter) (float64, error) {
	opening := make([]*openenv.Future[*demoClient], o.sessions)
	for i := range opening {
		opening[i] = env.Async().NewSession()
	}
	sessions, err := openenv.AwaitAll(ctx, opening...)
	if err != nil {
		return 0, err // env closes those that were opened
	}
	episodes := make([]*openenv.Future[float64], o.sessions)
	for i, session := range sessions {
		episodes[i] = openenv.Defer(session, func(ctx context.Context) (float64, error) {
			return o.blockingEpisode(ctx, session, count)
		})
	}
	var total float64
	finished := 0
	for i, episode := range openenv.AsCompleted(ctx, episodes...) {
		reward, err := episode.Result()
		if err != nil {
			return 0, fmt.Errorf("episode %d: %w", i, err)
		}
		total += reward
		finished++
	}
	if finished < o.sessions {
		return 0, context.Cause(ctx)
	}
	return total, nil
}

// demoMessage is the message of step i; lengths differ, so that rewards do.
func demoMessage(i int) string { return strings.Repeat("hello", i%4+1) }

// checkEcho returns the reward of a step, if the reply is that of its own action.
func checkEcho(message string, res openenv.StepResult[echo.Observation]) (float64, error) {
	switch {
	case res.Observation.Echoed != message:
		return 0, fmt.Errorf("sent %q, got the echo %q", message, res.Observation.Echoed)
	case res.Reward == nil:
		return 0, fmt.Errorf("the step %q has no reward", message)
	}
	return *res.Reward, nil
}

func printTallies(w io.Writer, tallies []tally) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %9s %9s %12s %10s\n", "", "EPISODES", "STEPS", "MEAN REWARD", "STEPS/S")
	for _, t := range tallies {
		fmt.Fprintf(&b, "%-20s %9d %9d %12.2f %10.0f\n", t.Face, t.Episodes, t.Steps, t.MeanReward, t.StepsPerSecond)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
