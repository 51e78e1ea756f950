// Package wordle is the guessing of a secret word of five letters in six attempts.
//
//	env.Reset(ctx, openenv.Seed(42))
//	res, err := env.Step(ctx, wordle.Action{Guess: "crane"})
//	res.Observation.Feedback // [absent correct present absent absent]
//
// For each letter of a guess the observation says correct (it stands there), present
// (it stands elsewhere) or absent. A letter is found as often as the secret has it:
// correct places are given out first, then present ones from left to right.
//
// The reward is half the progress over the best guess before, where a correct letter
// counts 1/5 and a present one 1/10, and another half for the secret itself: the
// rewards of an episode add up to 1 when it is solved, and to less than 1/2 otherwise.
// The episode ends with the secret or after six guesses; then, and only then, the
// observation has the secret.
//
// Reset takes seed and strict. With strict, guesses must be of the list that secrets
// come from; otherwise any five letters a to z will do. Capitals are taken as small
// letters. A guess that is none is an error and costs no attempt. A step before the
// first reset or after the end is refused.
package wordle

import (
	"context"
	_ "embed" // for the list of words
	"fmt"
	"slices"
	"strings"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/internal/episode"
	"github.com/openenv-go/openenv/envserver"
)

const (
	letters  = 5
	attempts = 6
)

// Action is a guess.
type Action struct {
	Guess string `json:"guess" jsonschema:"a word of five letters a to z"`
}

// Observation is what a guess has shown.
type Observation struct {
	Guess        string   `json:"guess"            jsonschema:"the guess, empty after a reset"`
	Feedback     []string `json:"feedback"         jsonschema:"for each letter of the guess: correct, present or absent"`
	AttemptsLeft int      `json:"attempts_left"    jsonschema:"guesses that are left"`
	Solved       bool     `json:"solved"           jsonschema:"true when the guess is the secret"`
	Secret       string   `json:"secret,omitempty" jsonschema:"the secret word, only there when the episode is over"`
}

// State is the episode, without its secret.
type State struct {
	openenv.State

	AttemptsLeft int  `json:"attempts_left" jsonschema:"guesses that are left"`
	Strict       bool `json:"strict"        jsonschema:"true when guesses must be of the list of words"`
}

// Spec ties the types together, for both ends.
var Spec = openenv.Spec[Action, Observation, State]{Name: "wordle"}

//go:embed words.txt
var wordFile string

// words is the sorted list that secrets are drawn from.
var words = strings.Fields(wordFile)

// Env is one episode.
type Env struct {
	episode episode.Episode
	secret  string
	strict  bool
	best    float64 // progress of the best guess
}

// New builds an environment.
func New(context.Context) (*Env, error) { return new(Env), nil }

// ConcurrentSessions reports that environments share nothing but the list of words.
func (*Env) ConcurrentSessions() bool { return true }

// Reset draws a secret.
func (e *Env) Reset(_ context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error) {
	params := episode.Read(p)
	strict := params.Flag("strict", false)
	if err := params.Err(); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	rng := e.episode.Begin(p)
	e.secret, e.strict, e.best = words[rng.IntN(len(words))], strict, 0
	return openenv.StepResult[Observation]{Observation: Observation{Feedback: []string{}, AttemptsLeft: attempts}}, nil
}

// Step compares a guess.
func (e *Env) Step(_ context.Context, a Action) (openenv.StepResult[Observation], error) {
	if err := e.episode.Ready(); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	guess, err := e.check(a.Guess)
	if err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	o := Observation{
		Guess:        guess,
		Feedback:     compare(guess, e.secret),
		AttemptsLeft: attempts - e.episode.State().StepCount - 1,
		Solved:       guess == e.secret,
	}
	done := o.Solved || o.AttemptsLeft == 0
	if done {
		o.Secret = e.secret
	}
	reward := e.reward(o)
	e.episode.Took(done)
	return openenv.StepResult[Observation]{Observation: o, Reward: &reward, Done: done}, nil
}

// check returns the guess in small letters.
func (e *Env) check(guess string) (string, error) {
	small := strings.ToLower(guess)
	if len(small) != letters || strings.ContainsFunc(small, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return "", fmt.Errorf("guess %.20q is not five letters a to z", guess)
	}
	if e.strict {
		if _, listed := slices.BinarySearch(words, small); !listed {
			return "", fmt.Errorf("guess %q is not in the list of words", guess)
		}
	}
	return small, nil
}

// reward pays for what the guess adds to the best one.
func (e *Env) reward(o Observation) float64 {
	points := 0
	for _, f := range o.Feedback {
		switch f {
		case correct:
			points += 2
		case present:
			points++
		}
	}
	reward := 0.0
	if progress := float64(points) / (2 * letters); progress > e.best {
		reward = (progress - e.best) / 2
		e.best = progress
	}
	if o.Solved {
		reward += 0.5
	}
	return reward
}

// State returns the episode without its secret.
func (e *Env) State(context.Context) (State, error) {
	s := e.episode.State()
	return State{State: s, AttemptsLeft: attempts - s.StepCount, Strict: e.strict}, nil
}
