package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
)

// sizedEnv is the echo environment with the message of interop/peer that asks for a
// large observation: big:<bytes>. It keeps the text, as an environment keeps its
// screen.
type sizedEnv struct {
	*echo.Env
	text string
}

func newSized(ctx context.Context) (*sizedEnv, error) {
	env, err := echo.New(ctx)
	return &sizedEnv{Env: env}, err
}

// ConcurrentSessions reports that environments share nothing.
func (*sizedEnv) ConcurrentSessions() bool { return true }

func (e *sizedEnv) Step(ctx context.Context, a echo.Action) (openenv.StepResult[echo.Observation], error) {
	number, found := strings.CutPrefix(a.Message, "big:")
	if !found {
		return e.Env.Step(ctx, a)
	}
	size, err := strconv.Atoi(number)
	if err != nil {
		return openenv.StepResult[echo.Observation]{}, err
	}
	if len(e.text) != size {
		e.text = strings.Repeat("x", size)
	}
	reward := 0.1 * float64(size)
	return openenv.StepResult[echo.Observation]{Observation: echo.Observation{Echoed: e.text, Length: size}, Reward: &reward}, nil
}

func newServer(sessions int) (*envserver.Server, error) {
	return envserver.New(echo.Spec, newSized, envserver.WithMaxSessions(sessions))
}
