// Package envtest is what the tests of the environments have in common: each is driven
// by a real client, in memory.
//
//	leak.Check(t)
//	env := envtest.Connect(t, gridworld.Spec, gridworld.New)
package envtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/openenvtest"
)

// maxSteps ends an episode that would go on for ever.
const maxSteps = 1000

// Connect serves an environment and returns a client of it, for the time of the test.
func Connect[A, O, S any, E envserver.Environment[A, O, S]](
	t testing.TB, spec openenv.Spec[A, O, S], build func(context.Context) (E, error),
) *openenv.Client[A, O, S] {
	t.Helper()
	handler, err := envserver.New(spec, build, envserver.WithMaxSessions(8))
	if err != nil {
		t.Fatal(err)
	}
	srv := openenvtest.Serve(t, handler)
	env, err := openenv.New(spec, srv.URL(), srv.Option())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return env
}

// Play plays an episode: next chooses the n-th action after seeing an observation.
func Play[A, O, S any](
	t testing.TB, env *openenv.Client[A, O, S], next func(n int, seen O) A, params ...openenv.ResetParam,
) []openenv.StepResult[O] {
	t.Helper()
	res, err := env.Reset(t.Context(), params...)
	if err != nil {
		t.Fatalf("Reset: %v", err)
	}
	if res.Done {
		t.Fatalf("done after a reset: %+v", res)
	}
	all := []openenv.StepResult[O]{res}
	for n := 0; !res.Done; n++ {
		if n == maxSteps {
			t.Fatalf("not done after %d steps", n)
		}
		action := next(n, res.Observation)
		if res, err = env.Step(t.Context(), action); err != nil {
			t.Fatalf("step %d, %+v: %v", n, action, err)
		}
		all = append(all, res)
	}
	return all
}

// CheckSeeds fails t unless equal seeds give equal episodes, in one session, in another
// one and with a third in between, and different seeds different ones.
func CheckSeeds[A, O, S any](
	t *testing.T, env *openenv.Client[A, O, S], next func(n int, seen O) A, params ...openenv.ResetParam,
) {
	t.Helper()
	play := func(env *openenv.Client[A, O, S], seed int64) string {
		// Some episodes end at once, so several tell two seeds apart.
		var record strings.Builder
		for i := range int64(3) {
			for _, res := range Play(t, env, next, append(slices.Clip(params), openenv.Seed(seed*1000+i))...) {
				if err := json.NewEncoder(&record).Encode([]any{res.Observation, res.Reward, res.Done, res.Metadata}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return record.String()
	}
	other, err := env.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	records := make(map[string]int64)
	for _, seed := range []int64{0, 1, -1, 1 << 40} {
		first := play(env, seed)
		if again := play(env, seed); again != first {
			t.Errorf("seed %d again: %s, before: %s", seed, again, first)
		}
		if elsewhere := play(other, seed); elsewhere != first {
			t.Errorf("seed %d in another session: %s, before: %s", seed, elsewhere, first)
		}
		if twin, ok := records[first]; ok {
			t.Errorf("seeds %d and %d give the same episodes: %s", seed, twin, first)
		}
		records[first] = seed
	}
	Play(t, env, next, params...) // and without a seed
}

// CheckOrder fails t unless env, fresh, refuses a step before the first reset and after
// the end of an episode, and goes on after each refusal.
func CheckOrder[A, O any, S any](t *testing.T, env *openenv.Client[A, O, S], next func(n int, seen O) A, of func(S) openenv.State) {
	t.Helper()
	state := func() openenv.State {
		s, err := env.State(t.Context())
		if err != nil {
			t.Fatalf("State: %v", err)
		}
		return of(s)
	}
	if s := state(); s != (openenv.State{}) {
		t.Errorf("state before a reset: %+v", s)
	}
	var zero O
	_, err := env.Step(t.Context(), next(0, zero))
	Refused(t, err, "reset first")
	all := Play(t, env, next, openenv.EpisodeID("mine"))
	if s := state(); s.EpisodeID != "mine" || s.StepCount != len(all)-1 {
		t.Errorf("state after %d steps: %+v", len(all)-1, s)
	}
	_, err = env.Step(t.Context(), next(len(all)-1, all[len(all)-1].Observation))
	Refused(t, err, "the episode is over")
	if _, err := env.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := state(); s.EpisodeID == "" || s.EpisodeID == "mine" || s.StepCount != 0 {
		t.Errorf("state after another reset: %+v", s)
	}
}

// Refused fails t unless err is an environment's own error with these words in it.
func Refused(t testing.TB, err error, words ...string) {
	t.Helper()
	refusal, ok := errors.AsType[*openenv.ServerError](err)
	if !ok || refusal.Code != "EXECUTION_ERROR" {
		t.Errorf("error %v, want an EXECUTION_ERROR with %q", err, words)
		return
	}
	for _, w := range words {
		if !strings.Contains(refusal.Message, w) {
			t.Errorf("error %q lacks %q", refusal.Message, w)
		}
	}
}
