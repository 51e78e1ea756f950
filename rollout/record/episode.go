package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// Ending says how an attempt, and with its last attempt an episode, ended.
type Ending string

// The endings. Returns and lengths are those of Terminated and Truncated episodes
// alone: see Ending.Counts.
const (
	Terminated Ending = "terminated"        // the environment said done
	Truncated  Ending = "truncated"         // a limit ended it; Limit says which
	EnvError   Ending = "environment_error" // the environment answered with an error
	Lost       Ending = "infrastructure"    // the session was lost, or none could be had
	Cancelled  Ending = "cancelled"         // the run ended first
)

// Counts reports that the episode is one whose return says something about the
// policy.
func (e Ending) Counts() bool { return e == Terminated || e == Truncated }

// Whole reports that the episode was played to an end of its own, and is not played
// again when a run is resumed.
func (e Ending) Whole() bool { return e.Counts() || e == EnvError }

// Limit is what truncated an episode.
type Limit string

// The limits.
const (
	LimitSteps  Limit = "steps"
	LimitTime   Limit = "time"
	LimitReturn Limit = "return"
	LimitPolicy Limit = "policy" // the policy wanted no further step
)

// Episode is one line of a file: an episode of a run, or a recorded session. All but
// Attempts is the same whenever a deterministic environment plays the same run.
type Episode struct {
	Index     int    // from 0; of a recording the number of the session
	Seed      *int64 // what the reset asked for, nil in a recording
	Ending    Ending // empty in a recording
	Limit     Limit  // of Truncated
	Error     string // of EnvError, Lost and Cancelled
	Return    float64
	Steps     int
	Exchanges []Exchange
	Closed    *Closed   // of a recording
	Attempts  []Attempt // the last is the one that Exchanges shows
}

// Attempt is one try at an episode, from its reset.
type Attempt struct {
	Number  int       `json:"attempt"` // from 1
	Ending  Ending    `json:"ending"`
	Limit   Limit     `json:"limit,omitempty"`
	Error   string    `json:"error,omitempty"`
	Steps   int       `json:"steps"`
	Server  string    `json:"server,omitempty"`
	Started time.Time `json:"started"`
	// Millis are the round trips in milliseconds: that of the reset, then those of
	// the steps.
	Millis []float64 `json:"ms,omitempty"`
}

// Closed is how a recorded session ended.
type Closed struct {
	By     string `json:"by"`   // client or server
	Code   int    `json:"code"` // of the WebSocket close; 1006 when there was none
	Reason string `json:"reason,omitempty"`
}

// Result is the data of an observation frame. The raw bytes are as the server sent
// them.
type Result struct {
	Observation json.RawMessage
	Reward      *float64 // nil when there was none; true is 1
	Done        bool
}

// ErrNotObservation is a reply that is no observation: an error, a state.
var ErrNotObservation = errors.New("reply is not an observation")

// Result decodes the reply of a reset or a step. It reads the file of an observation
// that is stored apart.
func (x *Exchange) Result() (Result, error) {
	if x.Type != typeObservation {
		return Result{}, ErrNotObservation
	}
	reply, err := x.Reply()
	if err != nil {
		return Result{}, err
	}
	return ParseResult(reply)
}

// ParseResult decodes the data of an observation frame.
func ParseResult(data []byte) (Result, error) {
	var in struct {
		Observation json.RawMessage `json:"observation"`
		Reward      json.RawMessage `json:"reward"`
		Done        bool            `json:"done"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return Result{}, fmt.Errorf("observation frame: %w", err)
	}
	reward, err := parseReward(in.Reward)
	return Result{Observation: in.Observation, Reward: reward, Done: in.Done}, err
}

func parseReward(raw json.RawMessage) (*float64, error) {
	var value float64
	switch string(raw) {
	case "", "null":
		return nil, nil //nolint:nilnil // no reward and no error is what a server may send
	case "true":
		value = 1
	case "false":
	default:
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, fmt.Errorf("reward: %w", err)
		}
	}
	return &value, nil
}

// finite is v, or nil where JSON has no number for it.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
