package connectfour_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/connectfour"
	"github.com/openenv-go/openenv/envs/internal/envtest"
	"github.com/openenv-go/openenv/internal/leak"
)

// sweep takes the legal columns in turn.
func sweep(n int, seen connectfour.Observation) connectfour.Action {
	if len(seen.LegalColumns) == 0 {
		return connectfour.Action{}
	}
	return connectfour.Action{Column: seen.LegalColumns[n%len(seen.LegalColumns)]}
}

// stack builds a column as long as it can.
func stack(_ int, seen connectfour.Observation) connectfour.Action {
	return connectfour.Action{Column: seen.LegalColumns[0]}
}

func TestSeeds(t *testing.T) {
	for _, opponent := range []string{"random", "greedy", "minimax"} {
		t.Run(opponent, func(t *testing.T) {
			leak.Check(t)
			env := envtest.Connect(t, connectfour.Spec, connectfour.New)
			envtest.CheckSeeds(t, env, sweep, openenv.Param("opponent", opponent), openenv.Param("first", "opponent"))
		})
	}
}

func TestOrder(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, connectfour.Spec, connectfour.New)
	envtest.CheckOrder(t, env, sweep, func(s connectfour.State) openenv.State { return s.State })
}

// Every game ends as it should, and says so in all places.
func TestGames(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, connectfour.Spec, connectfour.New)
	winners := map[string]int{}
	for _, opponent := range []string{"random", "greedy", "minimax"} {
		for seed := range int64(10) {
			play := sweep
			if seed%2 == 0 {
				play = stack
			}
			all := envtest.Play(t, env, play, openenv.Seed(seed), openenv.Param("opponent", opponent))
			for _, res := range all[:len(all)-1] {
				if o := res.Observation; o.Turn != "agent" || o.Winner != "none" || len(o.LegalColumns) == 0 {
					t.Errorf("in the middle: %+v", o)
				}
			}
			for _, res := range all[1 : len(all)-1] {
				if *res.Reward != 0 || res.Observation.OpponentColumn == nil {
					t.Errorf("in the middle: %+v, reward %v", res, *res.Reward)
				}
			}
			last := all[len(all)-1]
			want, known := map[string]float64{"agent": 1, "opponent": -1, "draw": 0}[last.Observation.Winner]
			if !known || *last.Reward != want || last.Observation.Turn != "nobody" || len(last.Observation.LegalColumns) != 0 {
				t.Errorf("at the end: %+v, reward %v", last, *last.Reward)
			}
			state, err := env.State(t.Context())
			if err != nil || state.StepCount != len(all)-1 || state.Winner != last.Observation.Winner || state.Opponent != opponent {
				t.Errorf("State = %+v, %v after %d steps", state, err, len(all)-1)
			}
			winners[opponent+" against "+last.Observation.Winner]++
		}
	}
	t.Log(winners)
	if winners["random against agent"] == 0 || winners["minimax against opponent"] < 9 {
		t.Errorf("unlikely results: %v", winners)
	}
}

func TestFirstMove(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, connectfour.Spec, connectfour.New)
	for first, discs := range map[string]int{"agent": 0, "opponent": 1} {
		res, err := env.Reset(t.Context(), openenv.Param("first", first))
		if err != nil {
			t.Fatal(err)
		}
		o := res.Observation
		if got := strings.Count(strings.Join(o.Board, ""), "O"); got != discs || o.Turn != "agent" || (o.OpponentColumn != nil) != (discs > 0) || res.Reward != nil {
			t.Errorf("%s first: %+v", first, o)
		}
		if len(o.Board) != 6 || len(o.Board[0]) != 7 || len(o.LegalColumns) != 7 {
			t.Errorf("%s first: %+v", first, o)
		}
	}
}

func TestRefusals(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, connectfour.Spec, connectfour.New)
	_, err := env.Reset(t.Context(), openenv.Param("opponent", "perfect"))
	envtest.Refused(t, err, `reset parameter "opponent": "perfect" is none of greedy, random, minimax`)
	_, err = env.Reset(t.Context(), openenv.Param("first", 1), openenv.Param("opponent", true))
	envtest.Refused(t, err, `reset parameter "first": 1 is none of agent, opponent`, `"opponent": true is none of`)

	res, err := env.Reset(t.Context(), openenv.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range []int{-1, 7} {
		_, err := env.Step(t.Context(), connectfour.Action{Column: column})
		envtest.Refused(t, err, "does not exist; legal columns: 0, 1, 2, 3, 4, 5, 6")
	}
	// Fill a column, so that it becomes illegal.
	for !res.Done && slices.Contains(res.Observation.LegalColumns, 0) {
		if res, err = env.Step(t.Context(), connectfour.Action{Column: 0}); err != nil {
			t.Fatal(err)
		}
	}
	if res.Done {
		t.Fatalf("the game is over: %q", res.Observation.Board)
	}
	before, err := env.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = env.Step(t.Context(), connectfour.Action{Column: 0})
	envtest.Refused(t, err, "column 0 is full; legal columns: 1, 2, 3, 4, 5, 6")
	if after, err := env.State(t.Context()); err != nil || after != before {
		t.Errorf("State = %+v, %v; before %+v", after, err, before)
	}
}
