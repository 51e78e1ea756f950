package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"

	"github.com/openenv-go/openenv"
)

// Raw is the spec of any environment as JSON texts: what the policies of package
// policy play. Observations are kept byte for byte.
var Raw openenv.Spec[json.RawMessage, json.RawMessage, json.RawMessage]

// Policy chooses actions. One value serves all episodes of a run, several at once:
// Begin is called concurrently, and the players that it makes play at the same time.
type Policy[A, O any] interface {
	// Name stands for all that the choices depend on, besides the randomness that an
	// episode is given: a run is only gone on with under the same name.
	Name() string
	// Begin starts an attempt at an episode. An error of Begin or of the player ends
	// the run.
	Begin(ctx context.Context, start Start) (Player[A, O], error)
}

// Player plays one attempt. Its methods are called one at a time.
type Player[A, O any] interface {
	// Act answers the result of the reset, or of the step before. [ErrStop] ends the
	// episode, truncated by its policy.
	Act(ctx context.Context, last openenv.StepResult[O]) (A, error)
	// Close is called once, however the attempt ended.
	Close() error
}

// ErrStop is a policy that wants no further step.
var ErrStop = errors.New("policy stops the episode")

// Start is what a policy is told of an episode.
type Start struct {
	Episode int
	Attempt int   // from 1
	Seed    int64 // what the reset asked for
	// Rand is the player's own, and the same in every attempt at this episode.
	Rand   *rand.Rand
	Schema openenv.Schema // of the environment; empty when the server has none to offer
}

// Seeder is a policy that says which seeds the environment is reset with, a replay of
// a record for instance. Without a seed for an episode it has the run's.
type Seeder interface {
	EpisodeSeed(episode int) (seed int64, ok bool)
}

// Func makes a policy of a function without memory. Its name must tell it from every
// other one: see [Policy].
func Func[A, O any](name string, act func(ctx context.Context, rng *rand.Rand, last openenv.StepResult[O]) (A, error)) Policy[A, O] {
	return &funcPolicy[A, O]{name, act}
}

type funcPolicy[A, O any] struct {
	name string
	act  func(context.Context, *rand.Rand, openenv.StepResult[O]) (A, error)
}

func (p *funcPolicy[A, O]) Name() string { return p.name }

func (p *funcPolicy[A, O]) Begin(_ context.Context, start Start) (Player[A, O], error) {
	return &funcPlayer[A, O]{p, start.Rand}, nil
}

type funcPlayer[A, O any] struct {
	policy *funcPolicy[A, O]
	rng    *rand.Rand
}

func (p *funcPlayer[A, O]) Act(ctx context.Context, last openenv.StepResult[O]) (A, error) {
	return p.policy.act(ctx, p.rng, last)
}

func (*funcPlayer[A, O]) Close() error { return nil }
