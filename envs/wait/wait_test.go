package wait_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/internal/envtest"
	"github.com/openenv-go/openenv/envs/wait"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

func TestEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		env := envtest.Connect(t, wait.Spec, wait.New)
		_, err := env.Step(t.Context(), wait.Action{})
		envtest.Refused(t, err, "reset first")
		if _, err := env.Reset(t.Context(), openenv.EpisodeID("mine")); err != nil {
			t.Fatal(err)
		}
		for _, s := range []float64{0, 0.25, 30} {
			start := time.Now()
			res, err := env.Step(t.Context(), wait.Action{WaitS: s})
			if err != nil || res.Observation.WaitedS != s || res.Reward != nil || res.Done {
				t.Errorf("Step(%v) = %+v, %v", s, res, err)
			}
			if took := time.Since(start).Seconds(); took != s {
				t.Errorf("Step(%v) took %v s", s, took)
			}
		}
		state, err := env.State(t.Context())
		if err != nil || state != (openenv.State{EpisodeID: "mine", StepCount: 3}) {
			t.Errorf("State = %+v, %v", state, err)
		}
	})
}

// Waits run beside one another, each in its own session.
func TestSessionsWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		env := envtest.Connect(t, wait.Spec, wait.New)
		start := time.Now()
		var waits []*openenv.Future[openenv.StepResult[wait.Observation]]
		for range 8 {
			session, err := env.NewSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := session.Async().Reset().Await(t.Context()); err != nil {
				t.Fatal(err)
			}
			waits = append(waits, session.Async().Step(wait.Action{WaitS: 10}))
		}
		if _, err := openenv.AwaitAll(t.Context(), waits...); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("8 waits of 10 s took %v", took)
		}
	})
}

func TestRefusedWaits(t *testing.T) {
	env := new(wait.Env)
	if _, err := env.Reset(t.Context(), envserver.ResetParams{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []float64{-0.001, math.Inf(-1), math.Inf(1), math.NaN(), 3600.5} {
		if _, err := env.Step(t.Context(), wait.Action{WaitS: s}); err == nil || !strings.Contains(err.Error(), "is not between 0 and 3600 seconds") {
			t.Errorf("Step(%v): %v", s, err)
		}
	}
	if state, err := env.State(t.Context()); err != nil || state.StepCount != 0 {
		t.Errorf("State = %+v, %v", state, err)
	}
}

// The wait ends with the ctx, for its cause, and the next one is a whole one.
func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := new(wait.Env)
		if _, err := env.Reset(t.Context(), envserver.ResetParams{}); err != nil {
			t.Fatal(err)
		}
		left := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(left) })
		for _, after := range []time.Duration{time.Second, 0} {
			start := time.Now()
			_, err := env.Step(ctx, wait.Action{WaitS: 60})
			if took := time.Since(start); !errors.Is(err, left) || took != after {
				t.Errorf("Step after %v: %v", took, err)
			}
		}
		start := time.Now()
		if _, err := env.Step(t.Context(), wait.Action{WaitS: 5}); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("next Step after %v: %v", time.Since(start), err)
		}
	})
}

func TestStepAllocatesNothing(t *testing.T) {
	env := new(wait.Env)
	ctx := t.Context()
	if _, err := env.Reset(ctx, envserver.ResetParams{}); err != nil {
		t.Fatal(err)
	}
	step := func() {
		if _, err := env.Step(ctx, wait.Action{WaitS: 1e-6}); err != nil {
			t.Fatal(err)
		}
	}
	step() // makes the timer
	if allocs := testing.AllocsPerRun(100, step); allocs > 0 {
		t.Errorf("%v allocations a step", allocs)
	}
}
