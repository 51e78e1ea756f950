package episode_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/internal/episode"
	"github.com/openenv-go/openenv/envserver"
)

func TestOrder(t *testing.T) {
	var e episode.Episode
	if err := e.Ready(); !errors.Is(err, episode.ErrNotReset) {
		t.Errorf("before a reset: %v", err)
	}
	e.Start(envserver.ResetParams{EpisodeID: "mine"})
	for _, last := range []bool{false, true} {
		if err := e.Ready(); err != nil {
			t.Error(err)
		}
		e.Took(last)
	}
	if err := e.Ready(); !errors.Is(err, episode.ErrOver) {
		t.Errorf("after the end: %v", err)
	}
	if s := e.State(); s != (openenv.State{EpisodeID: "mine", StepCount: 2}) {
		t.Errorf("state %+v", s)
	}
	e.Start(envserver.ResetParams{})
	if s := e.State(); e.Ready() != nil || s.StepCount != 0 || s.EpisodeID == "" || s.EpisodeID == "mine" {
		t.Errorf("after another reset: %+v, %v", s, e.Ready())
	}
}

func TestChance(t *testing.T) {
	begin := func(seed *int64) *rand.Rand { return new(episode.Episode).Begin(envserver.ResetParams{Seed: seed}) }
	drawn := map[uint64]string{}
	for _, seed := range []int64{0, 1, -1, 1 << 62} {
		first, again := begin(&seed).Uint64(), begin(&seed).Uint64()
		if first != again {
			t.Errorf("seed %d: %d, then %d", seed, first, again)
		}
		if drawn[first] != "" {
			t.Errorf("seed %d draws what another has drawn", seed)
		}
		drawn[first] = "seeded"
	}
	for range 4 {
		n := begin(nil).Uint64()
		if drawn[n] != "" {
			t.Errorf("an episode without a seed draws what another has drawn")
		}
		drawn[n] = "unseeded"
	}
}

func TestParams(t *testing.T) {
	for _, tt := range []struct {
		name   string
		extra  openenv.Object
		number int
		flag   bool
		word   string
		wrong  []string
	}{
		{"defaults", nil, 5, true, "one", nil},
		{"null", openenv.Object{"number": nil, "flag": nil, "word": nil}, 5, true, "one", nil},
		{"as decoded", openenv.Object{"number": 7.0, "flag": false, "word": "two"}, 7, false, "two", nil},
		{"as written in Go", openenv.Object{"number": 7}, 7, true, "one", nil},
		{"as a number of text", openenv.Object{"number": json.Number("7")}, 7, true, "one", nil},
		{"unknown ones", openenv.Object{"numbr": "x"}, 5, true, "one", nil},
		{"bounds", openenv.Object{"number": 1.0}, 1, true, "one", nil},
		{"too low", openenv.Object{"number": 0.0}, 5, true, "one", []string{`reset parameter "number": 0 is not between 1 and 9`}},
		{"too high", openenv.Object{"number": 1e300}, 5, true, "one", []string{"1e+300 is not between 1 and 9"}},
		{"a fraction", openenv.Object{"number": 1.5}, 5, true, "one", []string{"1.5 is not a whole number"}},
		{"no number of text", openenv.Object{"number": json.Number("x")}, 5, true, "one", []string{"is not a whole number"}},
		{
			"all wrong",
			openenv.Object{"number": "7", "flag": "yes", "word": "three"}, 5, true, "one",
			[]string{
				`reset parameter "number": "7" is not a whole number`,
				`reset parameter "flag": "yes" is neither true nor false`,
				`reset parameter "word": "three" is none of one, two`,
			},
		},
		{"a long one", openenv.Object{"word": strings.Repeat("ü", 1000)}, 5, true, "one", []string{`"` + strings.Repeat("ü", 40) + `…" is none of`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := episode.Read(envserver.ResetParams{Extra: tt.extra})
			number, flag, word := p.Int("number", 5, 1, 9), p.Flag("flag", true), p.Choice("word", "one", "two")
			if number != tt.number || flag != tt.flag || word != tt.word {
				t.Errorf("read %d, %v, %s", number, flag, word)
			}
			err := p.Err()
			if (err != nil) != (tt.wrong != nil) {
				t.Fatalf("Err: %v", err)
			}
			for _, w := range tt.wrong {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
		})
	}
}

func TestOneOf(t *testing.T) {
	if err := episode.OneOf("move", "up", "up", "down"); err != nil {
		t.Error(err)
	}
	if err := episode.OneOf("move", "", "up", "down"); err == nil || err.Error() != `move "" is none of up, down` {
		t.Errorf("OneOf: %v", err)
	}
}
