package main

import (
	"context"
	"strings"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
)

// The names under which the report finds its contenders.
const (
	bareOne   = "bare echo, one process"
	bareTwo   = "bare echo, two processes"
	stepOne   = "step, one process"
	stepTwo   = "step, two processes"
	awaitOne  = "await, one process"
	startOne  = "start and await, one process"
	rawOne    = "raw-map step, one process"
	pyOnGo    = "Python async client, Go server"
	pyOnPy    = "Python async client, Python server"
	goOnPy    = "Go step, Python server"
	smallSize = 100
	largeSize = 10 << 10
)

func goContenders(ctx context.Context, local, child addresses) ([]*contender, error) {
	var cs []*contender
	for _, size := range []int{smallSize, largeSize} {
		for _, mk := range []func() (*contender, error){
			func() (*contender, error) { return newBare(ctx, bareOne, local.Bare, size) },
			func() (*contender, error) { return newStep(stepOne, local.Env, size, blocking) },
			func() (*contender, error) { return newStep(awaitOne, local.Env, size, await) },
			func() (*contender, error) { return newStep(startOne, local.Env, size, start) },
			func() (*contender, error) { return newRaw(rawOne, local.Env, size) },
			func() (*contender, error) { return newBare(ctx, bareTwo, child.Bare, size) },
			func() (*contender, error) { return newStep(stepTwo, child.Env, size, blocking) },
		} {
			c, err := mk()
			if err != nil {
				closeAll(cs)
				return nil, err
			}
			cs = append(cs, c)
		}
	}
	return cs, nil
}

// newBare is the floor: one goroutine reads for the life of the connection, as a
// client must, and hands each message over.
func newBare(ctx context.Context, name, url string, size int) (*contender, error) {
	ws, _, err := websocket.Dial(ctx, url, nil) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	replies := make(chan []byte)
	failed := make(chan error, 1)
	reading := context.WithoutCancel(ctx) // the connection's, as in the client
	go func() {
		for {
			_, msg, err := ws.Read(reading)
			if err != nil {
				failed <- err
				return
			}
			replies <- msg
		}
	}()
	msg := []byte(`{"type":"step","data":{"message":"` + strings.Repeat("x", size) + `"}}`)
	return &contender{name: name, size: size, end: func() { _ = ws.CloseNow() }, step: func(ctx context.Context) error {
		if err := ws.Write(ctx, websocket.MessageText, msg); err != nil {
			return err
		}
		select {
		case <-replies:
			return nil
		case err := <-failed:
			return err
		}
	}}, nil
}

type client = openenv.Client[echo.Action, echo.Observation, openenv.State]

func blocking(ctx context.Context, env *client, a echo.Action) error {
	_, err := env.Step(ctx, a)
	return err
}

func await(ctx context.Context, env *client, a echo.Action) error {
	_, err := env.Async().Step(a).Await(ctx)
	return err
}

func start(ctx context.Context, env *client, a echo.Action) error {
	_, err := env.Async().Step(a).Start(ctx).Await(ctx)
	return err
}

func newStep(name, url string, size int, step func(context.Context, *client, echo.Action) error) (*contender, error) {
	env, err := openenv.New(echo.Spec, url)
	if err != nil {
		return nil, err
	}
	a := echo.Action{Message: strings.Repeat("x", size)}
	return &contender{name: name, size: size, end: func() { _ = env.Close() },
		step: func(ctx context.Context) error { return step(ctx, env, a) }}, nil
}

func newRaw(name, url string, size int) (*contender, error) {
	env, err := openenv.New(openenv.Generic, url)
	if err != nil {
		return nil, err
	}
	a := openenv.Object{"message": strings.Repeat("x", size)}
	return &contender{name: name, size: size, end: func() { _ = env.Close() },
		step: func(ctx context.Context) error {
			_, err := env.Step(ctx, a)
			return err
		}}, nil
}
