package rollout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout/record"
)

// Defaults of a run.
const (
	DefaultMaxAttempts = 5
	DefaultPatience    = time.Minute
)

// resumeWait is how long an attempt waits for its socket. It is short: a server may be
// dead, other servers may have room, and an attempt can be made again.
const resumeWait = 3 * time.Second

// Config is a run.
type Config struct {
	Episodes int
	Sessions int // at once; 0 is 1
	Seed     int64
	Limits   record.Limits
	Reset    openenv.Object // what every reset is given besides the seed

	// Options are those of the clients. They come after openenv.WithResume, which a run
	// gives them unless it is Fragile: on servers that number requests, with a MaxWait of
	// 3 s. On a Python server, which would keep the sessions of a run that was killed,
	// resuming is to be asked for.
	Options []openenv.Option

	// Fragile lets sessions end with their sockets on every server, so that a cut in the
	// network costs each of them an attempt.
	Fragile bool

	// MaxAttempts is how often an episode is tried whose sessions are lost. Then it is
	// on file as lost, and a resumed run tries it again. 0 is DefaultMaxAttempts.
	MaxAttempts int
	// Patience is how long the run waits when no server can be reached. 0 is
	// DefaultPatience. A server that is full is waited for without a limit.
	Patience time.Duration

	// Out is the record's file; empty: there is none. Without Resume it must not
	// exist. With Resume, the whole episodes in it are not played again, and a file of
	// another run is a *record.IdentityError.
	Out    string
	Resume bool
	// ObservationLimit is the size in bytes over which an observation is stored in a
	// file of its own; 0 is record.DefaultObservationLimit, below 0 none is.
	ObservationLimit int

	// Logger is told of lost attempts and of servers that go and come; nil: nobody is.
	Logger *slog.Logger
}

// check refuses what cannot be played.
func (c *Config) check() error {
	switch {
	case c.Episodes < 1:
		return fmt.Errorf("number of episodes %d is below 1", c.Episodes)
	case c.Sessions < 0:
		return fmt.Errorf("number of sessions %d is negative", c.Sessions)
	case c.MaxAttempts < 0:
		return fmt.Errorf("number of attempts %d is negative", c.MaxAttempts)
	case c.Patience < 0:
		return fmt.Errorf("patience %v is negative", c.Patience)
	case c.Resume && c.Out == "":
		return errors.New("resume without a file to go on with")
	}
	if _, given := c.Reset["seed"]; given {
		return errors.New("reset parameter seed is the run's to give")
	}
	return c.Limits.Check()
}

// fill sets what is left open.
func (c *Config) fill() {
	c.Sessions = min(max(c.Sessions, 1), c.Episodes)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
	c.Patience = cmp.Or(c.Patience, DefaultPatience)
	c.ObservationLimit = cmp.Or(c.ObservationLimit, record.DefaultObservationLimit)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// survival are the options by which episodes survive the network.
func (c *Config) survival() []openenv.Option {
	if c.Fragile {
		return nil
	}
	return []openenv.Option{openenv.WithResume(openenv.Resume{MaxWait: min(c.Patience, resumeWait), NumberedOnly: true})}
}

// identity is what makes this run itself.
func (c *Config) identity(policy, schema string) (*record.Identity, error) {
	id := &record.Identity{Schema: schema, Policy: policy, Seed: c.Seed, Limits: c.Limits}
	if len(c.Reset) > 0 {
		encoded, err := json.Marshal(c.Reset)
		if err != nil {
			return nil, fmt.Errorf("reset parameters: %w", err)
		}
		id.Reset = encoded
	}
	return id, nil
}

// params are the parameters of a reset.
func (c *Config) params(seed int64) []openenv.ResetParam {
	params := []openenv.ResetParam{openenv.Seed(seed)}
	for key, value := range c.Reset {
		params = append(params, openenv.Param(key, value))
	}
	return params
}
