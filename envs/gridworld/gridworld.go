// Package gridworld is a walk over a grid from a start to a goal, between walls and
// around pits.
//
//	env.Reset(ctx, openenv.Seed(42), openenv.Param("width", 8))
//	res, err := env.Step(ctx, gridworld.Action{Move: "right"})
//
// The grid comes from the seed and always has a way from start to goal. A move into a
// wall or over the edge stays where it is. The episode ends on the goal, in a pit, or
// when no steps are left. Each step costs 0.01, the goal pays 1, a pit costs 1: the
// reward is a rubric, whose parts are in the metadata of each step under "scores", as
// "reward", "reward.goal", "reward.pit" and "reward.step".
//
// Reset takes seed, width and height (2 to 50, default 5) and max_steps (1 to 10000,
// default width times height, which is enough for any grid). A step before the first
// reset or after the end is refused.
package gridworld

import (
	"context"
	"maps"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/internal/episode"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/rubric"
)

// Action is one move.
type Action struct {
	Move Move `json:"move" jsonschema:"where to go: up, down, left or right"`
}

// Move is up, down, left or right.
type Move string

// MoveSchema is the JSON Schema of a Move, for envserver.WithSchema.
const MoveSchema = `{"type": "string", "enum": ["up", "down", "left", "right"]}`

// Position is a cell of the grid.
type Position struct {
	Row    int `json:"row"    jsonschema:"0 is the top row"`
	Column int `json:"column" jsonschema:"0 is the leftmost column"`
}

// Observation is what the agent sees.
type Observation struct {
	Position  Position `json:"position"   jsonschema:"where the agent is"`
	Goal      Position `json:"goal"       jsonschema:"where it should go"`
	Map       []string `json:"map"        jsonschema:"the grid, one text a row: A agent, G goal, O pit, # wall, . free"`
	Cell      string   `json:"cell"       jsonschema:"what the agent stands on: free, goal or pit"`
	Blocked   bool     `json:"blocked"    jsonschema:"true when a wall or the edge stopped the move"`
	StepsLeft int      `json:"steps_left" jsonschema:"steps until the episode ends"`
}

// State is the episode and its grid.
type State struct {
	openenv.State

	Width        int `json:"width"         jsonschema:"columns of the grid"`
	Height       int `json:"height"        jsonschema:"rows of the grid"`
	MaxSteps     int `json:"max_steps"     jsonschema:"steps after which the episode ends"`
	ShortestPath int `json:"shortest_path" jsonschema:"steps of the shortest way from start to goal"`
}

// Spec ties the types together, for both ends.
var Spec = openenv.Spec[Action, Observation, State]{Name: "gridworld"}

// smallest, largest and longest bound what a reset can ask for.
const (
	smallest    = 2
	largest     = 50
	longest     = 10000
	defaultSize = 5
)

// Env is one episode.
type Env struct {
	episode  episode.Episode
	reward   *rubric.Scorer[Action, Observation]
	grid     *grid
	at       Position
	maxSteps int
}

// New builds an environment.
func New(context.Context) (*Env, error) {
	reward, err := rubric.New(rubric.WeightedSum("reward",
		rubric.Weigh(1, rubric.Leaf("goal", standsOn(cellGoal))),
		rubric.Weigh(-1, rubric.Leaf("pit", standsOn(cellPit))),
		rubric.Weigh(-0.01, rubric.Leaf("step", func(context.Context, Action, Observation) (float64, error) { return 1, nil })),
	))
	if err != nil {
		return nil, err
	}
	return &Env{reward: reward}, nil
}

func standsOn(c cell) func(context.Context, Action, Observation) (float64, error) {
	return func(_ context.Context, _ Action, o Observation) (float64, error) {
		if o.Cell == c.String() {
			return 1, nil
		}
		return 0, nil
	}
}

// ConcurrentSessions reports that environments share nothing.
func (*Env) ConcurrentSessions() bool { return true }

// Reset draws a grid and puts the agent on its start.
func (e *Env) Reset(_ context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error) {
	params := episode.Read(p)
	width := params.Int("width", defaultSize, smallest, largest)
	height := params.Int("height", defaultSize, smallest, largest)
	maxSteps := params.Int("max_steps", width*height, 1, longest)
	if err := params.Err(); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	e.grid = drawGrid(e.episode.Begin(p), width, height)
	e.at, e.maxSteps = e.grid.start, maxSteps
	e.reward.Reset()
	return openenv.StepResult[Observation]{Observation: e.observe(e.at, maxSteps, false)}, nil
}

// Step moves the agent.
func (e *Env) Step(ctx context.Context, a Action) (openenv.StepResult[Observation], error) {
	var res openenv.StepResult[Observation]
	if err := e.episode.Ready(); err != nil {
		return res, err
	}
	if err := episode.OneOf("move", string(a.Move), moves...); err != nil {
		return res, err
	}
	to, moved := e.grid.move(e.at, string(a.Move))
	left := e.maxSteps - e.episode.State().StepCount - 1
	res.Observation = e.observe(to, left, !moved)
	reward, err := e.reward.Score(ctx, a, res.Observation)
	if err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	e.at = to
	res.Reward = &reward
	res.Done = e.grid.at(to) != cellFree || left == 0
	res.Metadata = openenv.Object{"scores": maps.Collect(e.reward.Scores())}
	e.episode.Took(res.Done)
	return res, nil
}

func (e *Env) observe(at Position, left int, blocked bool) Observation {
	return Observation{
		Position:  at,
		Goal:      e.grid.goal,
		Map:       e.grid.draw(at),
		Cell:      e.grid.at(at).String(),
		Blocked:   blocked,
		StepsLeft: left,
	}
}

// State returns the episode and its grid; the grid's fields are 0 before a reset.
func (e *Env) State(context.Context) (State, error) {
	s := State{State: e.episode.State(), MaxSteps: e.maxSteps}
	if e.grid != nil {
		s.Width, s.Height, s.ShortestPath = e.grid.width, e.grid.height, e.grid.distance()
	}
	return s, nil
}
