package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/openenv-go/openenv"
)

// Version is the version of the format that this package writes, and the newest that
// it reads.
const Version = 1

// Kind says what made a file.
type Kind string

// The kinds.
const (
	KindRollout   Kind = "rollout"   // a run: a line is an episode
	KindRecording Kind = "recording" // a recorder: a line is a session
)

// Header is the first line of a file. Files can be put one after the other: a header
// holds for the lines up to the next.
type Header struct {
	Version  int             `json:"openenv_record"`
	Kind     Kind            `json:"kind"`
	Identity *Identity       `json:"identity,omitempty"` // of a rollout
	Source   string          `json:"source,omitempty"`   // of a recording: the server's address, without user and query
	Schema   json.RawMessage `json:"schema,omitempty"`   // what the server answered to GET /schema
}

// Identity is what makes two runs the same run: their episodes may stand in one file.
// How many episodes there are and how many sessions play them is no part of it.
type Identity struct {
	Schema string          `json:"schema"` // see SchemaDigest
	Policy string          `json:"policy"` // its name, which stands for all that its choices depend on
	Seed   int64           `json:"seed"`   // of the run
	Limits Limits          `json:"limits"`
	Reset  json.RawMessage `json:"reset,omitempty"` // what every reset is given besides the seed, as a JSON object
}

// Limits end an episode that goes on. A zero field is no limit.
type Limits struct {
	Steps int
	// Time is that of an attempt, from its reset. An episode that it ends depends on
	// the machine.
	Time time.Duration
	// MinReturn and MaxReturn end an episode whose return is at or beyond them.
	MinReturn, MaxReturn *float64
}

type limitsJSON struct {
	Steps     int      `json:"steps,omitempty"`
	Time      string   `json:"time,omitempty"`
	MinReturn *float64 `json:"min_return,omitempty"`
	MaxReturn *float64 `json:"max_return,omitempty"`
}

// MarshalJSON writes the limits that there are, the time as "1m30s".
func (l Limits) MarshalJSON() ([]byte, error) {
	out := limitsJSON{Steps: l.Steps, MinReturn: l.MinReturn, MaxReturn: l.MaxReturn}
	if l.Time != 0 {
		out.Time = l.Time.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Limits) UnmarshalJSON(b []byte) error {
	var in limitsJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*l = Limits{Steps: in.Steps, MinReturn: in.MinReturn, MaxReturn: in.MaxReturn}
	if in.Time == "" {
		return nil
	}
	var err error
	l.Time, err = time.ParseDuration(in.Time)
	return err
}

// Check refuses limits that no episode can be played under. The error names the limit.
func (l Limits) Check() error {
	switch {
	case l.Steps < 0:
		return fmt.Errorf("limit of %d steps is negative", l.Steps)
	case l.Time < 0:
		return fmt.Errorf("limit of time %v is negative", l.Time)
	}
	for name, bound := range map[string]*float64{"lowest": l.MinReturn, "highest": l.MaxReturn} {
		if bound != nil && (math.IsNaN(*bound) || math.IsInf(*bound, 0)) {
			return fmt.Errorf("%s return %v is no limit", name, *bound)
		}
	}
	return nil
}

// SchemaDigest is "sha256:" and the hash of an environment's schemas, whatever the
// order of their keys and the space between them.
func SchemaDigest(s openenv.Schema) (string, error) {
	hash := sha256.New()
	for name, raw := range map[string]json.RawMessage{"action": s.Action, "observation": s.Observation, "state": s.State} {
		if len(raw) > 0 && !json.Valid(raw) {
			return "", fmt.Errorf("schema of %s is not JSON", name)
		}
	}
	for _, raw := range []json.RawMessage{s.Action, s.Observation, s.State} {
		hash.Write(Canonical(raw))
		hash.Write([]byte{0})
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}

// Canonical is a JSON value without space and with sorted keys, its numbers as they
// are written. What is not JSON stays as it is.
func Canonical(raw []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

// Differences tells in which parts two identities differ, each as "seed: 1 there, 2
// here" with i there and other here. It is empty when they are the same.
func (i Identity) Differences(other Identity) []string {
	var found []string
	compare := func(name, there, here string) {
		if there != here {
			found = append(found, fmt.Sprintf("%s: %s there, %s here", name, there, here))
		}
	}
	compare("schema", i.Schema, other.Schema)
	compare("policy", i.Policy, other.Policy)
	compare("seed", strconv.FormatInt(i.Seed, 10), strconv.FormatInt(other.Seed, 10))
	compare("limit of steps", limitText(i.Limits.Steps), limitText(other.Limits.Steps))
	compare("limit of time", limitText(i.Limits.Time), limitText(other.Limits.Time))
	compare("lowest return", boundText(i.Limits.MinReturn), boundText(other.Limits.MinReturn))
	compare("highest return", boundText(i.Limits.MaxReturn), boundText(other.Limits.MaxReturn))
	compare("reset parameters", paramText(i.Reset), paramText(other.Reset))
	return found
}

func limitText[T comparable](v T) string {
	if v == *new(T) {
		return "none"
	}
	return fmt.Sprint(v)
}

func boundText(v *float64) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}

func paramText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "none"
	}
	return string(Canonical(raw))
}

// IdentityError is a file that belongs to another run.
type IdentityError struct {
	Path        string
	Differences []string // at least one, see Identity.Differences
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("%s is the record of another run: %s", e.Path, strings.Join(e.Differences, "; "))
}
