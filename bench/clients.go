package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
)

// contender is one way of stepping.
type contender struct {
	key
	// round steps for about d, every session, and returns the number of steps and the
	// time that they took.
	round func(ctx context.Context, d time.Duration) (steps int, took time.Duration, err error)
	end   func()
	us    []float64 // microseconds per step, all sessions together, one per round
}

func closeAll(cs []*contender) {
	for _, c := range cs {
		c.end()
	}
}

// stepper makes one round trip on one session.
type stepper func(context.Context) error

// inTurn makes a contender of one stepper for each session.
func inTurn(k key, steppers []stepper, end func()) *contender {
	return &contender{key: k, end: end, round: func(ctx context.Context, d time.Duration) (int, time.Duration, error) {
		start := time.Now()
		if len(steppers) == 1 {
			n, err := repeat(ctx, steppers[0], start.Add(d))
			return n, time.Since(start), err
		}
		counts, errs := make([]int, len(steppers)), make([]error, len(steppers))
		var sessions sync.WaitGroup
		for i, step := range steppers {
			sessions.Go(func() { counts[i], errs[i] = repeat(ctx, step, start.Add(d)) })
		}
		sessions.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		return total, time.Since(start), errors.Join(errs...)
	}}
}

func repeat(ctx context.Context, step stepper, deadline time.Time) (steps int, err error) {
	for {
		if err := step(ctx); err != nil {
			return 0, err
		}
		steps++
		if !time.Now().Before(deadline) {
			return steps, nil
		}
	}
}

type echoClient = openenv.Client[echo.Action, echo.Observation, openenv.State]

func blocking(ctx context.Context, env *echoClient, a echo.Action) error {
	_, err := env.Step(ctx, a)
	return err
}

func await(ctx context.Context, env *echoClient, a echo.Action) error {
	_, err := env.Async().Step(a).Await(ctx)
	return err
}

func start(ctx context.Context, env *echoClient, a echo.Action) error {
	_, err := env.Async().Step(a).Start(ctx).Await(ctx)
	return err
}

// newGo makes a contender of this module's client with the echo environment's types.
func newGo(k key, url string, step func(context.Context, *echoClient, echo.Action) error) (*contender, error) {
	a := echo.Action{Message: message(k.size)}
	return newSpec(k, echo.Spec, url, func(ctx context.Context, env *echoClient) error { return step(ctx, env, a) })
}

// newResumed steps in a session that would survive the loss of its socket.
func newResumed(k key, url string) (*contender, error) {
	a := echo.Action{Message: message(k.size)}
	return newSpec(k, echo.Spec, url, func(ctx context.Context, env *echoClient) error { return blocking(ctx, env, a) },
		openenv.WithResume(openenv.Resume{}))
}

// rawSpec leaves observations as JSON.
var rawSpec = openenv.Spec[echo.Action, json.RawMessage, json.RawMessage]{Name: "raw"}

func newRawJSON(k key, url string) (*contender, error) {
	a := echo.Action{Message: message(k.size)}
	return newSpec(k, rawSpec, url, func(ctx context.Context, env *openenv.Client[echo.Action, json.RawMessage, json.RawMessage]) error {
		_, err := env.Step(ctx, a)
		return err
	})
}

func newRawMap(k key, url string) (*contender, error) {
	a := openenv.Object{"message": message(k.size)}
	return newSpec(k, openenv.Generic, url, func(ctx context.Context, env *openenv.GenericClient) error {
		_, err := env.Step(ctx, a)
		return err
	})
}

func newSpec[A, O, S any](k key, spec openenv.Spec[A, O, S], url string, step func(context.Context, *openenv.Client[A, O, S]) error, opts ...openenv.Option) (*contender, error) {
	root, err := openenv.New(spec, url, opts...)
	if err != nil {
		return nil, err
	}
	ctx := context.Background() // bounded by the client's own limits
	var steppers []stepper
	for range k.sessions {
		env, err := root.NewSession(ctx)
		if err != nil {
			return nil, errors.Join(err, root.Close())
		}
		// The face that can be handed over to the other.
		if _, err := env.Async().Reset().Await(ctx); err != nil {
			return nil, errors.Join(err, root.Close())
		}
		steppers = append(steppers, func(ctx context.Context) error { return step(ctx, env) })
	}
	return inTurn(k, steppers, func() { _ = root.Close() }), nil
}
