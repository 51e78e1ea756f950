package rubric

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
)

// Scorer is a rubric whose parts can be looked at. It serves one session: its methods
// must not run at the same time.
type Scorer[A, O any] struct {
	root  *node[A, O]
	nodes []*node[A, O] // root first, each part before those below it
	named map[string]*node[A, O]
}

// Outcome is what a part did in the last call of [Scorer.Score].
type Outcome struct {
	Score float64
	// Scored is false for a part that had no turn: nothing was scored yet, or an
	// earlier part of a [Sequential] failed, or there was an error.
	Scored bool
}

// node is one part of a scorer, with the memory of its last score.
type node[A, O any] struct {
	name   string // dotted
	rubric Rubric[A, O]
	last   Outcome
}

// New checks a description and makes a scorer of it. The dotted names begin with the
// name of root. An error is a [*PartError]: a name that is empty, contains a dot or is
// used twice in one combination, a combination without parts, a missing rubric, or a
// weight, threshold or factor that makes no sense.
func New[A, O any](root Part[A, O]) (*Scorer[A, O], error) {
	s := &Scorer[A, O]{named: make(map[string]*node[A, O])}
	var err error
	s.root, err = s.add("", root)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Scorer[A, O]) add(above string, p Part[A, O]) (*node[A, O], error) {
	n := &node[A, O]{name: above + p.name}
	fail := func(err error) (*node[A, O], error) { return nil, &PartError{n.name, err} }
	switch {
	case p.name == "":
		return fail(errors.New("a part without a name"))
	case strings.Contains(p.name, "."):
		return fail(fmt.Errorf("name %q contains a dot, which separates names", p.name))
	case s.named[n.name] != nil:
		return fail(errors.New("two parts have this name"))
	case p.build == nil:
		return fail(errors.New("a part that no function of this package made"))
	}
	s.nodes = append(s.nodes, n)
	s.named[n.name] = n
	below := make([]*node[A, O], 0, len(p.below))
	for _, q := range p.below {
		b, err := s.add(n.name+".", q)
		if err != nil {
			return nil, err
		}
		below = append(below, b)
	}
	var err error
	if n.rubric, err = p.build(below); err != nil {
		return fail(err)
	}
	return n, nil
}

// Score scores a pair. An error is a [*PartError] with the name of the part that
// failed, as is a score that is not finite ([ErrNotFinite]) and a ctx that has ended;
// after one, the memory of trajectories is that of an unfinished step: call Reset.
func (s *Scorer[A, O]) Score(ctx context.Context, action A, observation O) (float64, error) {
	for _, n := range s.nodes {
		n.last = Outcome{}
	}
	return s.root.score(ctx, action, observation)
}

// Reset starts an episode: every score and every memory of the one before is gone.
func (s *Scorer[A, O]) Reset() {
	for _, n := range s.nodes {
		n.last = Outcome{}
		if r, ok := n.rubric.(Resetter); ok {
			r.Reset()
		}
	}
}

// Last is the score that the part of this dotted name got in the last call of Score,
// and whether it got one.
func (s *Scorer[A, O]) Last(name string) (score float64, ok bool) {
	n := s.named[name]
	if n == nil {
		return 0, false
	}
	return n.last.Score, n.last.Scored
}

// All walks over all parts with their dotted names, each before the parts below it,
// in the order of their description.
func (s *Scorer[A, O]) All() iter.Seq2[string, Outcome] {
	return func(yield func(string, Outcome) bool) {
		for _, n := range s.nodes {
			if !yield(n.name, n.last) {
				return
			}
		}
	}
}

// Scores is All without the parts that got no score in the last call of Score:
// maps.Collect makes the metadata of a step from it.
func (s *Scorer[A, O]) Scores() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for name, o := range s.All() {
			if o.Scored && !yield(name, o.Score) {
				return
			}
		}
	}
}

func (n *node[A, O]) score(ctx context.Context, action A, observation O) (float64, error) {
	if ctx.Err() != nil {
		return 0, &PartError{n.name, context.Cause(ctx)}
	}
	score, err := n.rubric.Score(ctx, action, observation)
	if err == nil && !finite(score) {
		err = fmt.Errorf("%w: %v", ErrNotFinite, score)
	}
	if err != nil {
		return 0, n.wrap(err)
	}
	n.last = Outcome{score, true}
	return score, nil
}

// wrap names the part, unless a part below it has been named: the failure is there.
func (n *node[A, O]) wrap(err error) error {
	if p, ok := errors.AsType[*PartError](err); ok && strings.HasPrefix(p.Part, n.name+".") {
		return err
	}
	return &PartError{n.name, err}
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
