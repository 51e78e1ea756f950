// Package connectfour is the game of four in a row, played against a built-in opponent.
//
//	env.Reset(ctx, openenv.Seed(42), openenv.Param("opponent", "minimax"))
//	res, err := env.Step(ctx, connectfour.Action{Column: 3})
//
// The board has seven columns and six rows; a disc falls to the lowest free cell of its
// column, and four discs in a row, column or diagonal win. A step is the agent's move
// and the opponent's answer. The reward is 1 when the agent wins, -1 when the opponent
// does, and 0 otherwise; the episode ends with a win or a full board. A column that is
// full or does not exist is an error that names the legal ones, and nothing changes.
//
// Reset takes seed, opponent and first. Opponents, which choose by the seed between
// moves that are equal to them:
//
//   - greedy, the default: wins when it can, else stops a win that is one move away.
//   - random: any legal column.
//   - minimax: looks for lines up to four moves ahead.
//
// first says who begins: agent, the default, or opponent, whose disc then lies on the
// board after the reset. A step before the first reset or after the end is refused.
package connectfour

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/internal/episode"
	"github.com/openenv-go/openenv/envserver"
)

// Action is a disc in a column.
type Action struct {
	Column int `json:"column" jsonschema:"where to drop a disc: 0 is the leftmost column, 6 the rightmost"`
}

// Observation is the board after the opponent's answer.
type Observation struct {
	Board          []string `json:"board"           jsonschema:"the rows from top to bottom: X agent, O opponent, . free"`
	LegalColumns   []int    `json:"legal_columns"   jsonschema:"columns that take a disc; none when the game is over"`
	Turn           string   `json:"turn"            jsonschema:"who moves next: agent, or nobody when the game is over"`
	Winner         string   `json:"winner"          jsonschema:"agent or opponent, draw, or none while the game goes on"`
	OpponentColumn *int     `json:"opponent_column" jsonschema:"the opponent's last move, null before it has moved"`
}

// State is the episode. Its steps are the agent's moves.
type State struct {
	openenv.State

	Opponent string `json:"opponent" jsonschema:"how the opponent plays: greedy, random or minimax"`
	Winner   string `json:"winner"   jsonschema:"agent or opponent, draw, or none while the game goes on"`
}

// Spec ties the types together, for both ends.
var Spec = openenv.Spec[Action, Observation, State]{Name: "connectfour"}

// Words for who moves and who has won.
const (
	sideAgent    = "agent"
	sideOpponent = "opponent"
	nobody       = "nobody"
	draw         = "draw"
	none         = "none"
)

// Env is one game.
type Env struct {
	episode  episode.Episode
	rng      *rand.Rand
	board    board
	opponent string
	winner   string
	answer   *int // the opponent's last column
}

// New builds an environment.
func New(context.Context) (*Env, error) { return &Env{winner: none}, nil }

// ConcurrentSessions reports that environments share nothing.
func (*Env) ConcurrentSessions() bool { return true }

// Reset clears the board.
func (e *Env) Reset(_ context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error) {
	params := episode.Read(p)
	opponent := params.Choice("opponent", levelGreedy, levelRandom, levelMinimax)
	first := params.Choice("first", sideAgent, sideOpponent)
	if err := params.Err(); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	e.rng = e.episode.Begin(p)
	e.board, e.opponent, e.winner, e.answer = board{}, opponent, none, nil
	if first == sideOpponent {
		e.reply()
	}
	return openenv.StepResult[Observation]{Observation: e.observe()}, nil
}

// Step drops the agent's disc, and the opponent's.
func (e *Env) Step(_ context.Context, a Action) (openenv.StepResult[Observation], error) {
	if err := e.episode.Ready(); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	if err := e.check(a.Column); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	reward := 0.0
	e.board.drop(a.Column, discAgent)
	switch {
	case e.board.wins(a.Column):
		e.winner, reward = sideAgent, 1
	case e.board.full():
		e.winner = draw
	default:
		e.reply()
		if e.winner == sideOpponent {
			reward = -1
		}
	}
	done := e.winner != none
	e.episode.Took(done)
	return openenv.StepResult[Observation]{Observation: e.observe(), Reward: &reward, Done: done}, nil
}

// reply is the opponent's move.
func (e *Env) reply() {
	column := choose(e.opponent, &e.board, e.rng)
	e.board.drop(column, discOpponent)
	e.answer = &column
	switch {
	case e.board.wins(column):
		e.winner = sideOpponent
	case e.board.full():
		e.winner = draw
	}
}

func (e *Env) check(column int) error {
	legal := e.board.legal()
	if slices.Contains(legal, column) {
		return nil
	}
	why := "is full"
	if column < 0 || column >= columns {
		why = "does not exist"
	}
	return fmt.Errorf("column %d %s; legal columns: %s", column, why, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(legal)), ", "), "[]"))
}

func (e *Env) observe() Observation {
	o := Observation{
		Board:          e.board.draw(),
		LegalColumns:   []int{},
		Turn:           nobody,
		Winner:         e.winner,
		OpponentColumn: e.answer,
	}
	if e.winner == none {
		o.LegalColumns, o.Turn = e.board.legal(), sideAgent
	}
	return o
}

// State returns the episode and how it stands.
func (e *Env) State(context.Context) (State, error) {
	return State{State: e.episode.State(), Opponent: e.opponent, Winner: e.winner}, nil
}
