package rubric

import (
	"context"
	"errors"
)

// Rubric scores an action by the observation that followed it. The score may be any
// finite number; [Sequential] takes one above 0 as a pass.
//
// A rubric that keeps something from one call to the next implements [Resetter].
type Rubric[A, O any] interface {
	Score(ctx context.Context, action A, observation O) (float64, error)
}

// Resetter is implemented by rubrics with a memory: Reset is called when an episode
// starts.
type Resetter interface{ Reset() }

// Func is a function as a [Rubric].
type Func[A, O any] func(ctx context.Context, action A, observation O) (float64, error)

// Score calls f.
func (f Func[A, O]) Score(ctx context.Context, action A, observation O) (float64, error) {
	return f(ctx, action, observation)
}

// Part describes a rubric with a name and, for a combination, the parts below it. It
// is not checked before [New] sees it, and holds no state of its own: it may be used
// in several places and by several goroutines, if the rubrics in it allow that.
type Part[A, O any] struct {
	name  string
	below []Part[A, O]
	// build makes the rubric of a scorer; below are the nodes of the parts below, in
	// the same order.
	build func(below []*node[A, O]) (Rubric[A, O], error)
}

// Leaf is a part that is computed by a function.
func Leaf[A, O any](name string, score func(ctx context.Context, action A, observation O) (float64, error)) Part[A, O] {
	if score == nil {
		return Named[A, O](name, nil)
	}
	return Named(name, Rubric[A, O](Func[A, O](score)))
}

// Named is a part that is computed by any rubric, which every scorer made of this part
// shares. A [Scorer] given here is one score like any other: its own parts cannot be
// read through the outer one. To read them, combine parts instead of scorers.
func Named[A, O any](name string, r Rubric[A, O]) Part[A, O] {
	return Part[A, O]{name: name, build: func([]*node[A, O]) (Rubric[A, O], error) {
		if r == nil {
			return nil, errors.New("no rubric")
		}
		return r, nil
	}}
}
