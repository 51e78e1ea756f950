package blackjack_test

import (
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/blackjack"
	"github.com/openenv-go/openenv/envs/internal/envtest"
	"github.com/openenv-go/openenv/internal/leak"
)

// mimic plays as the dealer does.
func mimic(_ int, seen blackjack.Observation) blackjack.Action {
	if seen.PlayerSum < 17 {
		return blackjack.Action{Action: "hit"}
	}
	return blackjack.Action{Action: "stick"}
}

func TestSeeds(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, blackjack.Spec, blackjack.New)
	envtest.CheckSeeds(t, env, mimic)
}

func TestOrder(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, blackjack.Spec, blackjack.New)
	envtest.CheckOrder(t, env, mimic, func(s blackjack.State) openenv.State { return s.State })
}

// Whole games: what a player can see obeys the rules, and the reward follows from it.
func TestGames(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, blackjack.Spec, blackjack.New)
	results := map[float64]int{}
	for seed := range int64(150) {
		all := envtest.Play(t, env, mimic, openenv.Seed(seed), openenv.Param("natural", true))
		for i, res := range all {
			o := res.Observation
			if o.PlayerSum < 4 || o.DealerCard < 1 || o.DealerCard > 10 || o.DealerCard != all[0].Observation.DealerCard || (o.DealerSum > 0) != res.Done {
				t.Errorf("seed %d, step %d: %+v", seed, i, o)
			}
			if i > 0 && !res.Done && *res.Reward != 0 {
				t.Errorf("seed %d, step %d: reward %v", seed, i, *res.Reward)
			}
		}
		last := all[len(all)-1]
		o := last.Observation
		want := 0.0
		switch {
		case o.PlayerSum > 21:
			want = -1
		case o.DealerSum < 17:
			t.Errorf("seed %d: the dealer stopped at %d", seed, o.DealerSum)
		case o.PlayerSum == 21 && len(all) == 2 && o.DealerSum != 21:
			want = 1.5
		case o.DealerSum > 21 || o.PlayerSum > o.DealerSum:
			want = 1
		case o.PlayerSum < o.DealerSum:
			want = -1
		}
		if *last.Reward != want {
			t.Errorf("seed %d: %+v, reward %v, want %v", seed, o, *last.Reward, want)
		}
		results[want]++
	}
	for _, reward := range []float64{-1, 0, 1, 1.5} {
		if results[reward] == 0 {
			t.Errorf("no game paid %v: %v", reward, results)
		}
	}
	state, err := env.State(t.Context())
	if err != nil || !state.Natural {
		t.Errorf("State = %+v, %v", state, err)
	}
}

func TestRefusals(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, blackjack.Spec, blackjack.New)
	_, err := env.Reset(t.Context(), openenv.Param("natural", 1))
	envtest.Refused(t, err, `reset parameter "natural": 1 is neither true nor false`)
	if _, err := env.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = env.Step(t.Context(), blackjack.Action{Action: "double"})
	envtest.Refused(t, err, `action "double" is none of hit, stick`)
	if state, err := env.State(t.Context()); err != nil || state.StepCount != 0 {
		t.Errorf("State = %+v, %v", state, err)
	}
}
