package wordle_test

import (
	"math"
	"slices"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/internal/envtest"
	"github.com/openenv-go/openenv/envs/wordle"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

func opening(n int, _ wordle.Observation) wordle.Action {
	return wordle.Action{Guess: []string{"crane", "pilot", "shady", "Jumbo", "fghvx", "BLOCK"}[n%6]}
}

func TestSeeds(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, wordle.Spec, wordle.New)
	envtest.CheckSeeds(t, env, opening)
}

func TestOrder(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, wordle.Spec, wordle.New)
	envtest.CheckOrder(t, env, opening, func(s wordle.State) openenv.State { return s.State })
}

// The secret is shown at the end and not before, and is the one that the feedback was
// about: a second episode of the seed is solved with it at once.
func TestSecret(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, wordle.Spec, wordle.New)
	all := envtest.Play(t, env, opening, openenv.Seed(7))
	for i, res := range all {
		if o := res.Observation; (o.Secret != "") != res.Done || o.AttemptsLeft != 6-i {
			t.Errorf("after %d guesses: %+v", i, o)
		}
	}
	secret := all[len(all)-1].Observation.Secret
	all = envtest.Play(t, env, func(int, wordle.Observation) wordle.Action { return wordle.Action{Guess: secret} },
		openenv.Seed(7), openenv.Param("strict", true))
	last := all[len(all)-1]
	if len(all) != 2 || !last.Observation.Solved || *last.Reward != 1 || last.Observation.Secret != secret {
		t.Errorf("the secret itself: %+v, reward %v", last, *last.Reward)
	}
	state, err := env.State(t.Context())
	if err != nil || state.AttemptsLeft != 5 || !state.Strict || state.StepCount != 1 {
		t.Errorf("State = %+v, %v", state, err)
	}
}

func TestRewards(t *testing.T) {
	for _, tt := range []struct {
		name    string
		guesses []string
		rewards []float64
	}{
		{"at once", []string{"crane"}, []float64{1}},
		{"progress, none, the rest", []string{"crown", "blimp", "crown", "crane"}, []float64{0.25, 0, 0, 0.75}},
		{"only what is new", []string{"nacre", "trace", "crane"}, []float64{0.3, 0.05, 0.65}},
		{"never", []string{"crank", "crank", "crank", "crank", "crank", "crank"}, []float64{0.4, 0, 0, 0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := new(wordle.Env)
			if _, err := env.Reset(t.Context(), envserver.ResetParams{}); err != nil {
				t.Fatal(err)
			}
			env.WithSecret("crane")
			var rewards []float64
			for i, guess := range tt.guesses {
				res, err := env.Step(t.Context(), wordle.Action{Guess: guess})
				if err != nil {
					t.Fatal(err)
				}
				if res.Done != (i == len(tt.guesses)-1) {
					t.Errorf("after guess %d: done %v", i+1, res.Done)
				}
				rewards = append(rewards, *res.Reward)
			}
			if !slices.EqualFunc(rewards, tt.rewards, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
				t.Errorf("rewards %v, want %v", rewards, tt.rewards)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, wordle.Spec, wordle.New)
	_, err := env.Reset(t.Context(), openenv.Param("strict", "yes"))
	envtest.Refused(t, err, `reset parameter "strict": "yes" is neither true nor false`)
	for _, strict := range []bool{false, true} {
		if _, err := env.Reset(t.Context(), openenv.Param("strict", strict)); err != nil {
			t.Fatal(err)
		}
		for _, guess := range []string{"", "four", "sixsix", "ab de", "abcdé", "äöü", "12345"} {
			_, err := env.Step(t.Context(), wordle.Action{Guess: guess})
			envtest.Refused(t, err, "is not five letters a to z")
		}
		_, err := env.Step(t.Context(), wordle.Action{Guess: "zzzzz"})
		if !strict && err != nil {
			t.Error(err)
		}
		if strict {
			envtest.Refused(t, err, `guess "zzzzz" is not in the list of words`)
			state, err := env.State(t.Context())
			if err != nil || state.StepCount != 0 || state.AttemptsLeft != 6 {
				t.Errorf("State = %+v, %v", state, err)
			}
		}
	}
}
