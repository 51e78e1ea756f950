package gridworld_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/gridworld"
	"github.com/openenv-go/openenv/envs/internal/envtest"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// zigzag tries all directions in turn: it ends somewhere, or runs out of steps.
func zigzag(n int, _ gridworld.Observation) gridworld.Action {
	return gridworld.Action{Move: []gridworld.Move{"right", "down", "left", "down", "right", "up"}[n%6]}
}

func TestSeeds(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, gridworld.Spec, gridworld.New)
	envtest.CheckSeeds(t, env, zigzag, openenv.Param("width", 7))
}

func TestOrder(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, gridworld.Spec, gridworld.New)
	envtest.CheckOrder(t, env, zigzag, func(s gridworld.State) openenv.State {
		return openenv.State{EpisodeID: s.EpisodeID, StepCount: s.StepCount}
	})
}

// An agent that reads the map finds the goal by the shortest way.
func TestSolvedFromTheMap(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, gridworld.Spec, gridworld.New)
	for seed := range int64(20) {
		var plan []string
		all := envtest.Play(t, env, func(n int, seen gridworld.Observation) gridworld.Action {
			if n == 0 {
				plan = findPath(seen)
			}
			return gridworld.Action{Move: gridworld.Move(plan[n])}
		}, openenv.Seed(seed), openenv.Param("width", 8), openenv.Param("height", 6))
		state, err := env.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if state.Width != 8 || state.Height != 6 || state.MaxSteps != 48 || state.ShortestPath != len(plan) || state.StepCount != len(plan) {
			t.Errorf("seed %d: state %+v after %d steps", seed, state, len(plan))
		}
		last := all[len(all)-1]
		if last.Observation.Cell != "goal" || last.Observation.Position != last.Observation.Goal || math.Abs(*last.Reward-0.99) > 1e-9 {
			t.Errorf("seed %d: the last step %+v, reward %v", seed, last, *last.Reward)
		}
	}
}

// findPath searches the map that an observation shows.
func findPath(seen gridworld.Observation) []string {
	type place struct {
		at   gridworld.Position
		path []string
	}
	known := map[gridworld.Position]bool{seen.Position: true}
	for queue := []place{{at: seen.Position}}; len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		if from.at == seen.Goal {
			return from.path
		}
		for move, to := range map[string]gridworld.Position{
			"up":    {Row: from.at.Row - 1, Column: from.at.Column},
			"down":  {Row: from.at.Row + 1, Column: from.at.Column},
			"left":  {Row: from.at.Row, Column: from.at.Column - 1},
			"right": {Row: from.at.Row, Column: from.at.Column + 1},
		} {
			if known[to] || to.Row < 0 || to.Row >= len(seen.Map) || to.Column < 0 || to.Column >= len(seen.Map[0]) {
				continue
			}
			if strings.ContainsRune(".G", rune(seen.Map[to.Row][to.Column])) {
				known[to] = true
				queue = append(queue, place{to, append(slices.Clip(from.path), move)})
			}
		}
	}
	return nil
}

func TestRewards(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rows    []string
		move    string
		want    gridworld.Observation
		reward  float64
		done    bool
		partial map[string]float64
	}{
		{
			"free", []string{"A..G"}, "right",
			gridworld.Observation{Position: at(0, 1), Goal: at(0, 3), Map: []string{".A.G"}, Cell: "free", StepsLeft: 9},
			-0.01, false, map[string]float64{"reward": -0.01, "reward.goal": 0, "reward.pit": 0, "reward.step": 1},
		},
		{
			"wall", []string{"A#.G"}, "right",
			gridworld.Observation{Position: at(0, 0), Goal: at(0, 3), Map: []string{"A#.G"}, Cell: "free", StepsLeft: 9, Blocked: true},
			-0.01, false, map[string]float64{"reward": -0.01, "reward.goal": 0, "reward.pit": 0, "reward.step": 1},
		},
		{
			"pit", []string{"G.", "AO"}, "right",
			gridworld.Observation{Position: at(1, 1), Goal: at(0, 0), Map: []string{"G.", ".A"}, Cell: "pit", StepsLeft: 9},
			-1.01, true, map[string]float64{"reward": -1.01, "reward.goal": 0, "reward.pit": 1, "reward.step": 1},
		},
		{
			"goal", []string{"G.", "AO"}, "up",
			gridworld.Observation{Position: at(0, 0), Goal: at(0, 0), Map: []string{"A.", ".O"}, Cell: "goal", StepsLeft: 9},
			0.99, true, map[string]float64{"reward": 0.99, "reward.goal": 1, "reward.pit": 0, "reward.step": 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env, err := gridworld.New(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := env.Reset(t.Context(), envserver.ResetParams{Extra: openenv.Object{"max_steps": 10}}); err != nil {
				t.Fatal(err)
			}
			res, err := env.Onto(tt.rows...).Step(t.Context(), gridworld.Action{Move: gridworld.Move(tt.move)})
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(res.Observation) != fmt.Sprint(tt.want) || *res.Reward != tt.reward || res.Done != tt.done {
				t.Errorf("Step = %+v, reward %v", res, *res.Reward)
			}
			if got := res.Metadata["scores"].(map[string]float64); !maps.Equal(got, tt.partial) {
				t.Errorf("scores %v, want %v", got, tt.partial)
			}
		})
	}
}

func at(row, column int) gridworld.Position { return gridworld.Position{Row: row, Column: column} }

// The parts of the reward reach a client.
func TestScoresInMetadata(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, gridworld.Spec, gridworld.New)
	all := envtest.Play(t, env, zigzag, openenv.Param("max_steps", 1))
	last := all[len(all)-1]
	if len(all) != 2 || last.Observation.StepsLeft != 0 {
		t.Errorf("an episode of one step: %+v", all)
	}
	scores, ok := last.Metadata["scores"].(map[string]any)
	if !ok || scores["reward"] != *last.Reward || scores["reward.step"] != 1.0 {
		t.Errorf("metadata %v, reward %v", last.Metadata, *last.Reward)
	}
}

func TestRefusals(t *testing.T) {
	leak.Check(t)
	env := envtest.Connect(t, gridworld.Spec, gridworld.New)
	if _, err := env.Reset(t.Context(), openenv.EpisodeID("mine")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		value any
		want  string
	}{
		{"width", 1, `reset parameter "width": 1 is not between 2 and 50`},
		{"height", 51, `reset parameter "height": 51 is not between 2 and 50`},
		{"width", 4.5, `reset parameter "width": 4.5 is not a whole number`},
		{"max_steps", "many", `reset parameter "max_steps": "many" is not a whole number`},
	} {
		_, err := env.Reset(t.Context(), openenv.Param(tt.name, tt.value))
		envtest.Refused(t, err, tt.want)
	}
	_, err := env.Step(t.Context(), gridworld.Action{Move: "north"})
	envtest.Refused(t, err, `move "north" is none of up, down, left, right`)

	// Nothing of that has touched the episode.
	state, err := env.State(t.Context())
	if err != nil || state.EpisodeID != "mine" || state.StepCount != 0 {
		t.Errorf("State = %+v, %v", state, err)
	}
	if _, err := env.Step(t.Context(), gridworld.Action{Move: "up"}); err != nil {
		t.Error(err)
	}
}
