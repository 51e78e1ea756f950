package rubric

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

var errNoParts = errors.New("a combination without parts")

// Weighted is a part of a [WeightedSum] and what it counts.
type Weighted[A, O any] struct {
	Weight float64
	Part   Part[A, O]
}

// Weigh gives a part its weight. A negative weight makes a penalty of a score, and a
// part of weight 0 is only there to be read.
func Weigh[A, O any](weight float64, part Part[A, O]) Weighted[A, O] {
	return Weighted[A, O]{weight, part}
}

// WeightedSum is the sum of its parts' scores times their weights. All parts are
// scored, in order. Weights must be finite; they need not add up to 1.
func WeightedSum[A, O any](name string, parts ...Weighted[A, O]) Part[A, O] {
	p := Part[A, O]{name: name}
	weights := make([]float64, len(parts))
	for i, w := range parts {
		weights[i] = w.Weight
		p.below = append(p.below, w.Part)
	}
	p.build = func(below []*node[A, O]) (Rubric[A, O], error) {
		if len(below) == 0 {
			return nil, errNoParts
		}
		for i, w := range weights {
			if !finite(w) {
				return nil, fmt.Errorf("weight %v of %s is not a finite number", w, below[i].name)
			}
		}
		return &weightedSum[A, O]{weights, below}, nil
	}
	return p
}

type weightedSum[A, O any] struct {
	weights []float64
	parts   []*node[A, O]
}

func (w *weightedSum[A, O]) Score(ctx context.Context, action A, observation O) (float64, error) {
	sum := 0.0
	for i, p := range w.parts {
		score, err := p.score(ctx, action, observation)
		if err != nil {
			return 0, err
		}
		sum += w.weights[i] * score
	}
	return sum, nil
}

// Sequential scores its parts in order as long as they pass, that is, score above 0.
// Its score is that of the part where it stopped: the first that fails, or the last
// one. What comes after a failure is not computed, so cheap checks go first.
//
// A part that must reach more than that to pass goes through a [Gate].
func Sequential[A, O any](name string, parts ...Part[A, O]) Part[A, O] {
	return Part[A, O]{name: name, below: slices.Clone(parts), build: func(below []*node[A, O]) (Rubric[A, O], error) {
		if len(below) == 0 {
			return nil, errNoParts
		}
		return sequential[A, O](below), nil
	}}
}

type sequential[A, O any] []*node[A, O]

func (s sequential[A, O]) Score(ctx context.Context, action A, observation O) (score float64, err error) {
	for _, p := range s {
		score, err = p.score(ctx, action, observation)
		if err != nil || score <= 0 {
			break
		}
	}
	return score, err
}

// Gate is the score of its part when that is at least threshold, and 0 below. The part
// keeps its own score, by its own name below the gate's.
func Gate[A, O any](name string, threshold float64, part Part[A, O]) Part[A, O] {
	return Part[A, O]{name: name, below: []Part[A, O]{part}, build: func(below []*node[A, O]) (Rubric[A, O], error) {
		if !finite(threshold) {
			return nil, fmt.Errorf("threshold %v is not a finite number", threshold)
		}
		return &gate[A, O]{threshold, below[0]}, nil
	}}
}

type gate[A, O any] struct {
	threshold float64
	part      *node[A, O]
}

func (g *gate[A, O]) Score(ctx context.Context, action A, observation O) (float64, error) {
	score, err := g.part.score(ctx, action, observation)
	if err != nil || score < g.threshold {
		return 0, err
	}
	return score, nil
}
