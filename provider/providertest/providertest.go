// Package providertest is the suite that every provider passes, whatever it runs:
//
//	func TestProvider(t *testing.T) {
//		providertest.Run(t, providertest.Config{
//			New:       func(t *testing.T) provider.Provider { return cloud.New("echo") },
//			Leftovers: func(t *testing.T) []string { return sandboxes(t) },
//			Parallel:  20,
//		})
//	}
//
// It drives the provider as a client does and as the contract in package provider
// allows: a failed start is stopped, a stop is repeated, a context ends at any time.
// After each case nothing may be left: goroutines, descriptors, and what Leftovers
// lists.
package providertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider"
)

// Config is a provider to test. Each function makes a provider that was not started;
// those that are nil have their cases left out.
type Config struct {
	// New makes a provider of an environment that echoes: it takes the action
	// {"message": "hi"} and observes {"echoed": "hi"}. Required.
	New func(t *testing.T) provider.Provider

	// BadStart makes a provider whose Start fails. BadStartSays is in its error.
	BadStart     func(t *testing.T) provider.Provider
	BadStartSays []string

	// Dies makes a provider whose server starts and ends by itself, long before any
	// limit. DiesSays is in the error: its exit code, its last words.
	Dies     func(t *testing.T) provider.Provider
	DiesSays []string

	// NeverReady makes a provider whose server runs and is never ready, with a limit
	// of its own of a second or so. NeverReadySays is in the error: the last words of
	// its log.
	NeverReady     func(t *testing.T) provider.Provider
	NeverReadySays []string

	// StopFails makes a provider as New does, whose first Stop fails.
	StopFails func(t *testing.T) provider.Provider

	// Parallel is how many providers are started at once. 0 leaves the case out.
	Parallel int

	// Leftovers lists what exists of providers, such as processes and containers. It
	// is asked before and after each case.
	Leftovers func(t *testing.T) []string

	// Limit bounds every call, two minutes by default.
	Limit time.Duration
}

// noticed is how soon a death must be reported.
const noticed = 5 * time.Second

// Run runs the suite as subtests of t.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.New == nil {
		t.Fatal("providertest: Config.New is missing")
	}
	if cfg.Limit == 0 {
		cfg.Limit = 2 * time.Minute
	}
	for _, c := range []struct {
		name  string
		given bool
		run   func(*suite)
	}{
		{"Episode", true, (*suite).episode},
		{"Again", true, (*suite).again},
		{"StopTwice", true, (*suite).stopTwice},
		{"StopBeforeStart", true, (*suite).stopBeforeStart},
		{"StopBeforeReady", true, (*suite).stopBeforeReady},
		{"StartTwice", true, (*suite).startTwice},
		{"CancelledStart", true, (*suite).cancelledStart},
		{"CancelledWait", cfg.NeverReady != nil, (*suite).cancelledWait},
		{"FailedStart", cfg.BadStart != nil, (*suite).failedStart},
		{"Dies", cfg.Dies != nil, (*suite).dies},
		{"NeverReady", cfg.NeverReady != nil, (*suite).neverReady},
		{"FailedStop", cfg.StopFails != nil, (*suite).failedStop},
		{"Parallel", cfg.Parallel > 0, (*suite).parallel},
	} {
		if !c.given {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			leak.Check(t)
			s := &suite{T: t, cfg: cfg}
			s.noLeftovers()
			c.run(s)
		})
	}
}

// suite is one case.
type suite struct {
	*testing.T
	cfg Config
}

// noLeftovers compares what exists now with what exists when the case has ended.
func (s *suite) noLeftovers() {
	s.Helper()
	if s.cfg.Leftovers == nil {
		return
	}
	before := map[string]bool{}
	for _, name := range s.cfg.Leftovers(s.T) {
		before[name] = true
	}
	s.Cleanup(func() {
		for _, name := range s.cfg.Leftovers(s.T) {
			if !before[name] {
				s.Errorf("left behind: %s", name)
			}
		}
	})
}

// limited is a context for one call.
func (s *suite) limited() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Limit)
	s.Cleanup(cancel)
	return ctx
}

// make makes a provider and has it stopped at the end, whatever the case did.
func (s *suite) make(build func(*testing.T) provider.Provider) provider.Provider {
	p := build(s.T)
	s.Cleanup(func() { s.stop(p) })
	return p
}

func (s *suite) stop(p provider.Provider) {
	s.Helper()
	if err := p.Stop(s.limited()); err != nil {
		s.Errorf("Stop: %v", err)
	}
}

// start starts p and waits until it is ready.
func (s *suite) start(p provider.Provider) provider.Endpoint {
	s.Helper()
	endpoint, err := p.Start(s.limited())
	if err != nil {
		s.Fatalf("Start: %v", err)
	}
	if err := p.WaitReady(s.limited()); err != nil {
		s.Fatalf("WaitReady: %v", err)
	}
	if len(endpoint.URLs) == 0 {
		s.Fatal("Start returned no URL")
	}
	return endpoint
}

// play plays an episode on a client that p is the provider of.
func play(ctx context.Context, p provider.Provider) (err error) {
	env, err := openenv.FromProvider(ctx, openenv.Generic, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	if _, err := env.Reset(ctx); err != nil {
		return err
	}
	res, err := env.Step(ctx, openenv.Object{"message": "hi"})
	if err != nil {
		return err
	}
	if res.Observation["echoed"] != "hi" {
		return errors.New("the environment is not one that echoes: Config.New says which it has to be")
	}
	state, err := env.State(ctx)
	if err != nil {
		return err
	}
	if state["step_count"] != 1.0 {
		return errors.New("the state does not count one step")
	}
	return nil
}

// refused reports whether a new client can no longer reach the endpoint.
func refused(ctx context.Context, endpoint provider.Endpoint) bool {
	for _, url := range endpoint.URLs {
		env, err := openenv.New(openenv.Generic, url, openenv.WithHeaders(endpoint.Headers))
		if err != nil {
			return false
		}
		_, err = env.Health(ctx)
		if errors.Join(err, env.Close()) == nil {
			return false
		}
	}
	return true
}

// says checks that err has all of the words in its text.
func (s *suite) says(err error, words []string) {
	s.Helper()
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			s.Errorf("the error does not say %q: %v", word, err)
		}
	}
}
