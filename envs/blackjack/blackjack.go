// Package blackjack is the card game of one player against a dealer, with the classic
// rules of reinforcement learning.
//
//	env.Reset(ctx, openenv.Seed(42))
//	res, err := env.Step(ctx, blackjack.Action{Action: "hit"})
//
// Each card is drawn from a deck that never runs out: all thirteen ranks are equally
// likely, face cards count ten, and an ace counts eleven as long as that does not bring
// a hand over 21, else one. Player and dealer get two cards, of which one of the
// dealer's is seen. The player hits, for another card, or sticks. Over 21 the player
// has lost at once; after a stick the dealer draws up to 17 or more, and the hand
// nearer to 21 wins.
//
// The reward is 0 while the game goes on, then 1 for a win, 0 for a draw and -1 for a
// loss.
//
// Reset takes seed and natural. With natural, a win with an ace and a ten as first
// cards pays 1.5. A step before the first reset or after the end is refused.
package blackjack

import (
	"cmp"
	"context"
	"math/rand/v2"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/internal/episode"
	"github.com/openenv-go/openenv/envserver"
)

// Action is what the player does.
type Action struct {
	Action Choice `json:"action" jsonschema:"hit for another card, or stick"`
}

// Choice is hit or stick.
type Choice string

// ChoiceSchema is the JSON Schema of a Choice, for envserver.WithSchema.
const ChoiceSchema = `{"type": "string", "enum": ["hit", "stick"]}`

// Observation is what the player knows.
type Observation struct {
	PlayerSum  int  `json:"player_sum"           jsonschema:"sum of the player's cards"`
	DealerCard int  `json:"dealer_card"          jsonschema:"the dealer's card that is seen, 1 is an ace"`
	UsableAce  bool `json:"usable_ace"           jsonschema:"true when an ace of the player counts eleven"`
	DealerSum  int  `json:"dealer_sum,omitempty" jsonschema:"sum of the dealer's cards, only there when the game is over"`
}

// State is the episode.
type State struct {
	openenv.State

	Natural bool `json:"natural" jsonschema:"true when a win with the first two cards pays 1.5"`
}

// Spec ties the types together, for both ends.
var Spec = openenv.Spec[Action, Observation, State]{Name: "blackjack"}

const (
	hit   = "hit"
	stick = "stick"
)

// dealerStops is the sum from which the dealer draws no more.
const dealerStops = 17

// Env is one game.
type Env struct {
	episode        episode.Episode
	rng            *rand.Rand
	natural        bool
	player, dealer hand
	seen           int // the dealer's first card
}

// New builds an environment.
func New(context.Context) (*Env, error) { return new(Env), nil }

// ConcurrentSessions reports that environments share nothing.
func (*Env) ConcurrentSessions() bool { return true }

// Reset deals.
func (e *Env) Reset(_ context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error) {
	params := episode.Read(p)
	natural := params.Flag("natural", false)
	if err := params.Err(); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	e.rng = e.episode.Begin(p)
	e.natural, e.player, e.dealer = natural, hand{}, hand{}
	e.player.take(draw(e.rng))
	e.player.take(draw(e.rng))
	e.seen = draw(e.rng)
	e.dealer.take(e.seen)
	e.dealer.take(draw(e.rng))
	return openenv.StepResult[Observation]{Observation: e.observe(false)}, nil
}

// Step hits or sticks.
func (e *Env) Step(_ context.Context, a Action) (openenv.StepResult[Observation], error) {
	if err := e.episode.Ready(); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	if err := episode.OneOf("action", string(a.Action), hit, stick); err != nil {
		return openenv.StepResult[Observation]{}, err
	}
	reward, done := 0.0, true
	if a.Action == stick {
		for sum, _ := e.dealer.sum(); sum < dealerStops; sum, _ = e.dealer.sum() {
			e.dealer.take(draw(e.rng))
		}
		reward = settle(e.player, e.dealer, e.natural)
	} else {
		e.player.take(draw(e.rng))
		if done = e.player.bust(); done {
			reward = -1
		}
	}
	e.episode.Took(done)
	return openenv.StepResult[Observation]{Observation: e.observe(done), Reward: &reward, Done: done}, nil
}

// settle is what the player gets after a stick.
func settle(player, dealer hand, natural bool) float64 {
	reward := float64(cmp.Compare(player.score(), dealer.score()))
	if natural && reward == 1 && player.natural() {
		return 1.5
	}
	return reward
}

func (e *Env) observe(done bool) Observation {
	var o Observation
	o.PlayerSum, o.UsableAce = e.player.sum()
	o.DealerCard = e.seen
	if done {
		o.DealerSum, _ = e.dealer.sum()
	}
	return o
}

// State returns the episode.
func (e *Env) State(context.Context) (State, error) {
	return State{State: e.episode.State(), Natural: e.natural}, nil
}
