package openenv

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// StepResult is what an environment answers to a reset or a step.
type StepResult[O any] struct {
	Observation O
	// Reward is nil when the environment gave none. A boolean reward is 1 or 0.
	Reward *float64
	// Done reports that the episode has ended.
	Done bool
	// Metadata is what the server sent beside reward and done; nil when it sent none.
	Metadata Object
}

// State is the state that every environment has. An environment with more embeds it
// or declares a type of its own.
type State struct {
	EpisodeID string `json:"episode_id"`
	StepCount int    `json:"step_count"`
}

// Mode is how a client talks to its environment. It is fixed when the client is made.
type Mode string

const (
	// ModeSimulation is the reset-and-step protocol, for training and evaluation.
	ModeSimulation Mode = "simulation"
	// ModeProduction is tools over JSON-RPC, as an agent uses them.
	ModeProduction Mode = "production"
)

// modeVariable overrides the default mode, as it does for the Python client
// (core/env_client.py, _normalize_mode).
const modeVariable = "OPENENV_CLIENT_MODE"

func defaultMode() (Mode, error) {
	text := os.Getenv(modeVariable)
	if text == "" {
		return ModeSimulation, nil
	}
	mode, err := ParseMode(text)
	if err != nil {
		return "", fmt.Errorf("environment variable %s: %w", modeVariable, err)
	}
	return mode, nil
}

// ParseMode reads a mode in any case, as the Python package does for its clients and
// its servers. The error quotes a text that is neither.
func ParseMode(text string) (Mode, error) {
	mode := Mode(strings.ToLower(text))
	if mode != ModeSimulation && mode != ModeProduction {
		return "", fmt.Errorf("mode %q is neither simulation nor production", text)
	}
	return mode, nil
}

// ResetParam is one parameter of a reset. Parameters reach the environment
// unchanged; which ones it knows is its own affair.
type ResetParam struct {
	key   string
	value any
}

// Seed asks for a reproducible episode.
func Seed(seed int64) ResetParam { return ResetParam{"seed", seed} }

// EpisodeID names the episode.
func EpisodeID(id string) ResetParam { return ResetParam{"episode_id", id} }

// Param is any other parameter; value is encoded as JSON.
func Param(key string, value any) ResetParam { return ResetParam{key, value} }

// resetData turns parameters into the data of a reset frame. A parameter given
// twice is refused: one of the values would be dropped.
func resetData(params []ResetParam) (Object, error) {
	data := make(Object, len(params))
	for _, p := range params {
		if p.key == "" {
			return nil, errors.New("reset parameter with an empty name")
		}
		if _, twice := data[p.key]; twice {
			return nil, fmt.Errorf("reset parameter %q given twice", p.key)
		}
		data[p.key] = p.value
	}
	return data, nil
}
