package rubric_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/rubric"
)

// In these tests an action is ignored and an observation is the scores of the leaves.
type scores map[string]float64

func leaf(name string) rubric.Part[string, scores] {
	return rubric.Leaf(name, func(_ context.Context, _ string, o scores) (float64, error) { return o[name], nil })
}

func build(t *testing.T, p rubric.Part[string, scores]) *rubric.Scorer[string, scores] {
	t.Helper()
	s, err := rubric.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCombinations(t *testing.T) {
	sum := rubric.WeightedSum("r", rubric.Weigh(0.25, leaf("a")), rubric.Weigh(-2, leaf("b")), rubric.Weigh(0, leaf("c")))
	sequence := rubric.Sequential("r", leaf("a"), leaf("b"), leaf("c"))
	gate := rubric.Gate("r", 0.5, leaf("a"))
	nested := rubric.WeightedSum("r",
		rubric.Weigh(1, rubric.Sequential("s", rubric.Gate("g", 0.5, leaf("a")), leaf("b"))),
		rubric.Weigh(10, leaf("c")))
	for _, tt := range []struct {
		name string
		part rubric.Part[string, scores]
		obs  scores
		want float64
		all  scores // of every part that had a turn
	}{
		{"one leaf", leaf("a"), scores{"a": 3}, 3, scores{"a": 3}},
		{"sum", sum, scores{"a": 1, "b": 1, "c": 9}, -1.75, scores{"r": -1.75, "r.a": 1, "r.b": 1, "r.c": 9}},
		{"sequence passes", sequence, scores{"a": 1, "b": 0.5, "c": 0.25}, 0.25, scores{"r": 0.25, "r.a": 1, "r.b": 0.5, "r.c": 0.25}},
		{"sequence stops at zero", sequence, scores{"a": 1, "c": 1}, 0, scores{"r": 0, "r.a": 1, "r.b": 0}},
		{"sequence stops at a penalty", sequence, scores{"a": -1, "b": 1}, -1, scores{"r": -1, "r.a": -1}},
		{"gate opens at its threshold", gate, scores{"a": 0.5}, 0.5, scores{"r": 0.5, "r.a": 0.5}},
		{"gate stays shut", gate, scores{"a": 0.49}, 0, scores{"r": 0, "r.a": 0.49}},
		{"nested, open", nested, scores{"a": 0.6, "b": 2, "c": 1}, 12, scores{"r": 12, "r.s": 2, "r.s.g": 0.6, "r.s.g.a": 0.6, "r.s.b": 2, "r.c": 1}},
		{"nested, shut", nested, scores{"a": 0.4, "b": 2, "c": 1}, 10, scores{"r": 10, "r.s": 0, "r.s.g": 0, "r.s.g.a": 0.4, "r.c": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := build(t, tt.part)
			got, err := s.Score(t.Context(), "", tt.obs)
			if err != nil || got != tt.want {
				t.Errorf("Score = %v, %v; want %v", got, err, tt.want)
			}
			if all := maps.Collect(s.Scores()); !maps.Equal(all, tt.all) {
				t.Errorf("scores %v, want %v", all, tt.all)
			}
			for name := range tt.all {
				if last, ok := s.Last(name); !ok || last != tt.all[name] {
					t.Errorf("Last(%s) = %v, %v", name, last, ok)
				}
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	one := leaf("a")
	none := func(string, scores) bool { return false }
	total := func(context.Context, []rubric.Step[string, scores]) (float64, error) { return 0, nil }
	for _, tt := range []struct {
		name string
		part rubric.Part[string, scores]
		want string
	}{
		{"empty name", rubric.Gate("r", 1, leaf("")), "rubric r.: a part without a name"},
		{"dotted name", leaf("a.b"), `rubric a.b: name "a.b" contains a dot`},
		{"zero part", rubric.Part[string, scores]{}, "a part without a name"},
		{"no function", rubric.Leaf[string, scores]("a", nil), "rubric a: no rubric"},
		{"nil rubric", rubric.Gate("r", 1, rubric.Named[string, scores]("a", nil)), "rubric r.a: no rubric"},
		{"same name twice", rubric.Sequential("r", one, one), "rubric r.a: two parts have this name"},
		{"empty sum", rubric.WeightedSum[string, scores]("r"), "rubric r: a combination without parts"},
		{"empty sequence", rubric.Sequential("r", rubric.Sequential[string, scores]("s")), "rubric r.s: a combination without parts"},
		{"weight NaN", rubric.WeightedSum("r", rubric.Weigh(math.NaN(), one)), "rubric r: weight NaN of r.a is not a finite number"},
		{"weight infinite", rubric.WeightedSum("r", rubric.Weigh(math.Inf(-1), one)), "weight -Inf of r.a"},
		{"threshold NaN", rubric.Gate("r", math.NaN(), one), "rubric r: threshold NaN is not a finite number"},
		{"no end", rubric.Trajectory("r", nil, total), "rubric r: a trajectory needs"},
		{"no score", rubric.Trajectory[string, scores]("r", none, nil), "rubric r: a trajectory needs"},
		{"gamma 0", rubric.Discounted("r", 0, none, total), "rubric r: gamma 0 is not above 0"},
		{"gamma above 1", rubric.Discounted("r", 1.01, none, total), "gamma 1.01"},
		{"gamma NaN", rubric.Discounted("r", math.NaN(), none, total), "gamma NaN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rubric.New(tt.part)
			if _, ok := errors.AsType[*rubric.PartError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v, want a PartError with %q", err, tt.want)
			}
		})
	}
}

// The error names the part that failed, not the combinations around it.
func TestErrorsNameThePart(t *testing.T) {
	boom := errors.New("boom")
	failing := rubric.Leaf("bad", func(context.Context, string, scores) (float64, error) { return 1, boom })
	s := build(t, rubric.WeightedSum("r", rubric.Weigh(1, leaf("a")), rubric.Weigh(1, rubric.Sequential("s", failing))))
	_, err := s.Score(t.Context(), "", scores{"a": 1})
	if part, ok := errors.AsType[*rubric.PartError](err); !ok || part.Part != "r.s.bad" || !errors.Is(err, boom) {
		t.Errorf("Score: %v", err)
	}
	if err.Error() != "rubric r.s.bad: boom" {
		t.Errorf("text %q", err)
	}
	if got := maps.Collect(s.Scores()); !maps.Equal(got, scores{"r.a": 1}) {
		t.Errorf("after the error: %v", got)
	}
}

func TestScoresMustBeFinite(t *testing.T) {
	huge := rubric.WeightedSum("sum", rubric.Weigh(math.MaxFloat64, leaf("a")))
	for _, tt := range []struct {
		name string
		part rubric.Part[string, scores]
		a    float64
		want string
	}{
		{"NaN", rubric.Gate("r", 0, leaf("a")), math.NaN(), "rubric r.a: score is not a finite number: NaN"},
		{"infinite", leaf("a"), math.Inf(1), "rubric a: score is not a finite number: +Inf"},
		{"overflow", rubric.Gate("r", 0, huge), 2, "rubric r.sum: score is not a finite number: +Inf"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := build(t, tt.part).Score(t.Context(), "", scores{"a": tt.a})
			if !errors.Is(err, rubric.ErrNotFinite) || err.Error() != tt.want {
				t.Errorf("Score: %v, want %s", err, tt.want)
			}
		})
	}
}

func TestEndedContext(t *testing.T) {
	left := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	first := rubric.Leaf("first", func(context.Context, string, scores) (float64, error) { cancel(left); return 1, nil })
	s := build(t, rubric.Sequential("r", first, leaf("second")))
	if _, err := s.Score(ctx, "", nil); !errors.Is(err, left) || !strings.Contains(err.Error(), "r.second") {
		t.Errorf("Score: %v", err)
	}
}

// Scores are those of the last call: nothing of an earlier one shows through.
func TestLastIsOfTheLastCall(t *testing.T) {
	s := build(t, rubric.Sequential("r", leaf("a"), leaf("b")))
	if _, ok := s.Last("r"); ok {
		t.Error("a score before the first call")
	}
	for _, tt := range []struct {
		obs  scores
		want scores
	}{
		{scores{"a": 1, "b": 2}, scores{"r": 2, "r.a": 1, "r.b": 2}},
		{scores{"a": 0, "b": 2}, scores{"r": 0, "r.a": 0}},
	} {
		if _, err := s.Score(t.Context(), "", tt.obs); err != nil {
			t.Fatal(err)
		}
		if got := maps.Collect(s.Scores()); !maps.Equal(got, tt.want) {
			t.Errorf("after %v: %v, want %v", tt.obs, got, tt.want)
		}
	}
	s.Reset()
	if got := maps.Collect(s.Scores()); len(got) != 0 {
		t.Errorf("after Reset: %v", got)
	}
	if _, ok := s.Last("r.unknown"); ok {
		t.Error("a score of a part that does not exist")
	}
}

func TestAllWalksInOrder(t *testing.T) {
	s := build(t, rubric.Sequential("r", rubric.Gate("g", 1, leaf("z")), leaf("a")))
	var names []string
	for name, outcome := range s.All() {
		if outcome.Scored {
			t.Errorf("%s was not scored", name)
		}
		names = append(names, name)
	}
	if want := []string{"r", "r.g", "r.g.z", "r.a"}; !slices.Equal(names, want) {
		t.Errorf("walk %v, want %v", names, want)
	}
	for range s.All() {
		break // a walk can be left
	}
}

// counter has a memory of its own: each call in an episode scores one more.
type counter struct{ calls float64 }

func (c *counter) Score(context.Context, string, scores) (float64, error) {
	c.calls++
	return c.calls, nil
}
func (c *counter) Reset() { c.calls = 0 }

func TestResetReachesEveryRubric(t *testing.T) {
	c := new(counter)
	inner := build(t, rubric.Named("inner", rubric.Rubric[string, scores](c)))
	s := build(t, rubric.Gate("r", 0, rubric.Named("scorer", rubric.Rubric[string, scores](inner))))
	for episode := range 2 {
		s.Reset()
		for step := range 3 {
			got, err := s.Score(t.Context(), "", nil)
			if err != nil || got != float64(step+1) {
				t.Errorf("episode %d, step %d: %v, %v", episode, step, got, err)
			}
		}
	}
}

// One description makes any number of scorers, each with its own memory.
func TestScorersShareNothing(t *testing.T) {
	part := episodePart("t", 0.5)
	one, other := build(t, part), build(t, part)
	if _, err := one.Score(t.Context(), "last", scores{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if _, ok := other.Credits("t"); ok {
		t.Error("the other scorer has credits")
	}
	if _, ok := other.Last("t"); ok {
		t.Error("the other scorer has a score")
	}
}

// episodePart ends with the action "last" and scores the sum of a.
func episodePart(name string, gamma float64) rubric.Part[string, scores] {
	done := func(a string, _ scores) bool { return a == "last" }
	score := func(_ context.Context, steps []rubric.Step[string, scores]) (float64, error) {
		sum := 0.0
		for _, s := range steps {
			sum += s.Observation["a"]
		}
		return sum, nil
	}
	if gamma == 0 {
		return rubric.Trajectory(name, done, score)
	}
	return rubric.Discounted(name, gamma, done, score)
}

func TestTrajectories(t *testing.T) {
	for _, tt := range []struct {
		name    string
		gamma   float64
		credits []float64
	}{
		{"undiscounted", 0, []float64{0, 0, 8}},
		{"gamma one", 1, []float64{8, 8, 8}},
		{"gamma one half", 0.5, []float64{2, 4, 8}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := build(t, rubric.WeightedSum("r", rubric.Weigh(3, episodePart("t", tt.gamma))))
			for range 2 { // an episode leaves nothing to the next
				s.Reset()
				for i, action := range []string{"", "", "last"} {
					if _, ok := s.Credits("r.t"); ok {
						t.Error("credits before the end")
					}
					got, err := s.Score(t.Context(), action, scores{"a": float64(i+1)*2 - 4.0/3})
					if want := map[string]float64{"": 0, "last": 24}[action]; err != nil || math.Abs(got-want) > 1e-9 {
						t.Fatalf("step %d: %v, %v; want %v", i, got, err, want)
					}
				}
				credits, ok := s.Credits("r.t")
				if !ok || !slices.EqualFunc(credits, tt.credits, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
					t.Errorf("credits %v, %v; want %v", credits, ok, tt.credits)
				}
				if _, err := s.Score(t.Context(), "", nil); !errors.Is(err, rubric.ErrEpisodeOver) {
					t.Errorf("a step after the end: %v", err)
				}
			}
			for _, name := range []string{"r", "r.nothing"} {
				if _, ok := s.Credits(name); ok {
					t.Errorf("%s has credits", name)
				}
			}
		})
	}
}

func TestTrajectoryThatCannotBeScored(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name  string
		score float64
		err   error
		want  error
	}{
		{"error", 0, boom, boom},
		{"not finite", math.NaN(), nil, rubric.ErrNotFinite},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := build(t, rubric.Trajectory("t", func(string, scores) bool { return true },
				func(context.Context, []rubric.Step[string, scores]) (float64, error) { return tt.score, tt.err }))
			if _, err := s.Score(t.Context(), "", nil); !errors.Is(err, tt.want) {
				t.Errorf("Score: %v", err)
			}
			if credits, ok := s.Credits("t"); ok {
				t.Errorf("credits %v", credits)
			}
		})
	}
}
