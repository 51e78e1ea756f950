// Package episode is what the environments of this module have in common: the name
// and length of an episode, the order of its calls, the source of its chance, and the
// reading of reset parameters.
//
//	params := episode.Read(p)
//	width := params.Int("width", 5, 2, 50)
//	if err := params.Err(); err != nil {
//		return res, err // the episode before goes on
//	}
//	rng := e.episode.Begin(p)
package episode

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
)

var (
	// ErrNotReset refuses a step that comes before the first reset.
	ErrNotReset = errors.New("no episode has started; reset first")
	// ErrOver refuses a step that comes after the last one.
	ErrOver = errors.New("the episode is over; reset to start another")
)

// Episode is the bookkeeping of an environment. The zero value waits for a reset.
type Episode struct {
	state   openenv.State
	started bool
	over    bool
}

// Begin starts an episode and returns its own source of chance: the same for the same
// seed, unpredictable without one.
func (e *Episode) Begin(p envserver.ResetParams) *rand.Rand {
	e.Start(p)
	if p.Seed != nil {
		return rand.New(rand.NewPCG(uint64(*p.Seed), 0))
	}
	var key [16]byte
	_, _ = crand.Read(key[:]) // never fails, see its documentation
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])))
}

// Start is Begin for an environment without chance.
func (e *Episode) Start(p envserver.ResetParams) {
	*e = Episode{state: openenv.State{EpisodeID: p.EpisodeID}, started: true}
	if e.state.EpisodeID == "" {
		e.state.EpisodeID = crand.Text()
	}
}

// Ready returns an error when a step has no place: before a reset, or after the end.
func (e *Episode) Ready() error {
	switch {
	case !e.started:
		return ErrNotReset
	case e.over:
		return ErrOver
	}
	return nil
}

// Took counts a step that was taken; last says that the episode ended with it.
func (e *Episode) Took(last bool) {
	e.state.StepCount++
	e.over = last
}

// State is the part of the state that every environment has. The id is empty before
// the first reset.
func (e *Episode) State() openenv.State { return e.state }
