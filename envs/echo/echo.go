// Package echo is the smallest environment: it answers with the message it was sent
// and rewards 0.1 for each character. It is what the demo, the examples and the
// benchmarks run.
package echo

import (
	"context"
	"crypto/rand"
	"unicode/utf8"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
)

// Action is a message to echo.
type Action struct {
	Message string `json:"message"`
}

// Observation is the message and its length in characters.
type Observation struct {
	Echoed string `json:"echoed"`
	Length int    `json:"length"`
}

// Spec ties the types together, for both ends.
var Spec = openenv.Spec[Action, Observation, openenv.State]{Name: "echo"}

// Env is one episode.
type Env struct{ state openenv.State }

// New builds an environment.
func New(context.Context) (*Env, error) {
	return &Env{state: openenv.State{EpisodeID: rand.Text()}}, nil
}

// ConcurrentSessions reports that environments share nothing.
func (*Env) ConcurrentSessions() bool { return true }

// Reset starts an episode.
func (e *Env) Reset(_ context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error) {
	e.state = openenv.State{EpisodeID: p.EpisodeID}
	if e.state.EpisodeID == "" {
		e.state.EpisodeID = rand.Text()
	}
	return openenv.StepResult[Observation]{Observation: Observation{Echoed: "ready"}}, nil
}

// Step echoes.
func (e *Env) Step(_ context.Context, a Action) (openenv.StepResult[Observation], error) {
	e.state.StepCount++
	length := utf8.RuneCountInString(a.Message)
	reward := float64(length) * 0.1
	return openenv.StepResult[Observation]{Observation: Observation{Echoed: a.Message, Length: length}, Reward: &reward}, nil
}

// State returns the episode's name and its number of steps.
func (e *Env) State(context.Context) (openenv.State, error) { return e.state, nil }
