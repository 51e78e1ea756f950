package rubric

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Step is one pair of an episode.
type Step[A, O any] struct {
	Action      A
	Observation O
}

// Trajectory collects the pairs of an episode and scores them together. The score is 0
// until done says that a pair is the last one, and then what score makes of all pairs;
// a further pair is [ErrEpisodeOver]. The slice given to score is only valid during
// the call. The whole score is credited to the last step.
//
// A trajectory is shown only the pairs whose turn comes: inside a [Sequential], those
// that pass the parts before it. Every pair is kept until [Scorer.Reset]: with large observations that is where the
// memory of a long episode goes.
func Trajectory[A, O any](
	name string,
	done func(action A, observation O) bool,
	score func(ctx context.Context, steps []Step[A, O]) (float64, error),
) Part[A, O] {
	return trajectoryPart(name, done, score, func() (func(age int) float64, error) {
		return func(age int) float64 {
			if age == 0 {
				return 1
			}
			return 0
		}, nil
	})
}

// Discounted is a [Trajectory] that credits every step with a share of the score:
// gamma for each step that came after it, so gamma to the n-th n steps before the end.
// gamma is above 0 and at most 1; with 1 all steps are credited with the whole score.
// [Scorer.Credits] has the credits.
func Discounted[A, O any](
	name string,
	gamma float64,
	done func(action A, observation O) bool,
	score func(ctx context.Context, steps []Step[A, O]) (float64, error),
) Part[A, O] {
	return trajectoryPart(name, done, score, func() (func(age int) float64, error) {
		if math.IsNaN(gamma) || gamma <= 0 || gamma > 1 {
			return nil, fmt.Errorf("gamma %v is not above 0 and at most 1", gamma)
		}
		return func(age int) float64 { return math.Pow(gamma, float64(age)) }, nil
	})
}

func trajectoryPart[A, O any](
	name string,
	done func(A, O) bool,
	score func(context.Context, []Step[A, O]) (float64, error),
	newShare func() (func(age int) float64, error),
) Part[A, O] {
	return Part[A, O]{name: name, build: func([]*node[A, O]) (Rubric[A, O], error) {
		if done == nil || score == nil {
			return nil, errors.New("a trajectory needs a function that says when it is done and one that scores it")
		}
		share, err := newShare()
		if err != nil {
			return nil, err
		}
		return &trajectory[A, O]{done: done, score: score, share: share}, nil
	}}
}

type trajectory[A, O any] struct {
	done  func(A, O) bool
	score func(context.Context, []Step[A, O]) (float64, error)
	share func(age int) float64 // of the score, for a step that many steps before the last

	steps []Step[A, O]
	over  bool
	final float64
}

func (t *trajectory[A, O]) Score(ctx context.Context, action A, observation O) (float64, error) {
	if t.over {
		return 0, ErrEpisodeOver
	}
	t.steps = append(t.steps, Step[A, O]{action, observation})
	if !t.done(action, observation) {
		return 0, nil
	}
	final, err := t.score(ctx, t.steps)
	if err != nil || !finite(final) {
		return final, err // there is nothing to credit; the part is told off by its node
	}
	t.over, t.final = true, final
	return final, nil
}

// Reset lets go of the episode, so that an idle session holds none.
func (t *trajectory[A, O]) Reset() { t.steps, t.over, t.final = nil, false, 0 }

func (t *trajectory[A, O]) credits() ([]float64, bool) {
	if !t.over {
		return nil, false
	}
	credits := make([]float64, 0, len(t.steps))
	for age := range t.steps {
		credits = append(credits, t.final*t.share(age))
	}
	slices.Reverse(credits)
	return credits, true
}

// Credits is what each step of the episode earned by the trajectory of this dotted
// name, first step first. It is not there before the episode has ended, and for parts
// that are no trajectories.
func (s *Scorer[A, O]) Credits(name string) (credits []float64, ok bool) {
	n := s.named[name]
	if n == nil {
		return nil, false
	}
	t, ok := n.rubric.(*trajectory[A, O])
	if !ok {
		return nil, false
	}
	return t.credits()
}
