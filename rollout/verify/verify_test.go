package verify_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/catalog"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/policy"
	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/verify"
)

type action struct {
	Push int `json:"push"`
}

type observation struct {
	N     int      `json:"n"`
	Items []string `json:"items"`
}

// dice is an environment with the faults that an environment can have.
type dice struct {
	rng    func() int
	n      int
	steps  int
	faults *faults
}

// faults are those of all environments of a server.
type faults struct {
	ignoresSeed  bool
	constant     bool
	sharesRandom bool
	keepsState   bool  // a reset does not begin anew
	oncePerLife  bool  // knows how often the server was started
	plantedAt    int32 // the step at which an answer is another one; 0: none
	planted      string

	shared *rand.Rand
	lives  int
	on     atomic.Bool
}

func (*dice) ConcurrentSessions() bool { return true }

func (d *dice) Reset(_ context.Context, p envserver.ResetParams) (openenv.StepResult[observation], error) {
	var seed int64
	if p.Seed != nil {
		seed = *p.Seed
	}
	own := rand.New(rand.NewPCG(uint64(seed), 1))
	switch f := d.faults; {
	case f.ignoresSeed:
		d.rng = func() int { return rand.IntN(1000) }
	case f.constant:
		d.rng = func() int { return 4 }
	case f.sharesRandom:
		f.shared = own // as a program does that seeds the generator of its process
		d.rng = func() int { return f.shared.IntN(1000) }
	default:
		d.rng = func() int { return own.IntN(1000) }
	}
	if !d.faults.keepsState {
		d.n = 0
	}
	d.steps = 0
	return openenv.StepResult[observation]{Observation: d.see()}, nil
}

func (d *dice) Step(_ context.Context, a action) (openenv.StepResult[observation], error) {
	d.steps++
	d.n += d.rng() + a.Push
	reward := 1.0
	res := openenv.StepResult[observation]{Observation: d.see(), Reward: &reward, Done: d.steps == 20}
	if f := d.faults; f.on.Load() && d.steps == int(f.plantedAt) {
		switch f.planted {
		case "observation":
			res.Observation.Items[1] = "other"
		case "reward":
			reward = 2
		case "done":
			res.Done = true
		}
	}
	return res, nil
}

func (d *dice) see() observation {
	n := d.n
	if d.faults.oncePerLife {
		n += d.faults.lives
	}
	return observation{N: n, Items: []string{"a", "b"}}
}

func (d *dice) State(context.Context) (openenv.State, error) {
	return openenv.State{StepCount: d.steps}, nil
}

// target serves dice in this process.
func target(t *testing.T, f *faults) rollout.Target {
	t.Helper()
	build := func(context.Context) (*dice, error) { return &dice{faults: f}, nil }
	srv, err := envserver.New(openenv.Spec[action, observation, openenv.State]{Name: "dice"}, build, envserver.WithMaxSessions(8))
	if err != nil {
		t.Fatal(err)
	}
	return rollout.Providers(&counting{Provider: rolloutProvider(srv), f: f})
}

func TestDeterminism(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults *faults
		fails  map[verify.Property]string // and what the difference says
	}{
		{"as it should be", &faults{}, nil},
		{"ignores the seed", &faults{ignoresSeed: true}, map[verify.Property]string{verify.SameSeed: "step 1: observation.n is", verify.Neighbours: "", verify.Restart: ""}},
		{"is always the same", &faults{constant: true}, map[verify.Property]string{verify.OtherSeed: "8 other seeds gave the same episode"}},
		{"shares a generator", &faults{sharesRandom: true}, map[verify.Property]string{verify.Neighbours: "observation.n is"}},
		{"keeps its state over a reset", &faults{keepsState: true}, map[verify.Property]string{verify.SameSeed: "step 0: observation.n is"}},
		{"changes with a restart", &faults{oncePerLife: true}, map[verify.Property]string{verify.Restart: "step 0: observation.n is"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			findings, err := verify.Determinism(t.Context(), target(t, tt.faults), verify.DeterminismConfig{Seed: 3})
			if err != nil || len(findings) != 4 {
				t.Fatalf("%+v, %v", findings, err)
			}
			for _, f := range findings {
				want, fails := tt.fails[f.Property]
				if f.OK == fails || f.Skipped != "" || !strings.Contains(f.Difference, want) || (f.Difference != "") != fails {
					t.Errorf("%+v, want a failure: %v, %q", f, fails, want)
				}
			}
		})
	}
}

// The environments that ship have a seed that means something, but for two that have
// no chance in them.
func TestDeterminismOfWhatShips(t *testing.T) {
	for _, name := range []string{"gridworld", "blackjack", "echo"} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			entry, err := catalog.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			srv, err := entry.New(envserver.WithMaxSessions(4))
			if err != nil {
				t.Fatal(err)
			}
			findings, err := verify.Determinism(t.Context(), rollout.Embedded(srv), verify.DeterminismConfig{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if seedless := name == "echo" && f.Property == verify.OtherSeed; f.OK == seedless {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// A replay finds a difference where it is, and nothing where there is none.
func TestReplayFindsThePlantedDivergence(t *testing.T) {
	leak.Check(t)
	f := &faults{}
	path := filepath.Join(t.TempDir(), "run.jsonl")
	run, err := rollout.Run(t.Context(), rollout.Raw, target(t, f), policy.Random(), rollout.Config{Episodes: 6, Sessions: 3, Seed: 1, Out: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(); err != nil {
		t.Fatal(err)
	}
	file, err := record.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	report, err := verify.Replay(t.Context(), file, target(t, f))
	if err != nil || len(report.Divergences) != 0 || report.Episodes != 6 || report.Steps != 120 {
		t.Fatalf("%+v, %v", report, err)
	}
	f.on.Store(true)
	for _, tt := range []struct {
		planted, path, want, got string
		at                       int32
	}{
		{"observation", "observation.items[1]", `"b"`, `"other"`, 13},
		{"reward", "reward", "1", "2", 1},
		{"done", "done", "false", "true", 19},
	} {
		t.Run(tt.planted, func(t *testing.T) {
			f.planted, f.plantedAt = tt.planted, tt.at
			report, err := verify.Replay(t.Context(), file, target(t, f))
			if err != nil || len(report.Divergences) != 6 {
				t.Fatalf("%+v, %v", report, err)
			}
			want := verify.Divergence{Episode: 0, Step: int(tt.at), Path: tt.path, Want: tt.want, Got: tt.got}
			if report.Divergences[0] != want {
				t.Errorf("%+v, want %+v", report.Divergences[0], want)
			}
		})
	}
}

// What a replay compares is values: the order of keys and the writing of a number are
// the server's own affair. Errors are compared by their code.
func TestReplayComparesValues(t *testing.T) {
	leak.Check(t)
	frame := func(s string) []byte { return []byte(s) }
	for _, tt := range []struct{ name, reply, want string }{
		{"the same", `{"type":"observation","data":{"observation":{"items":["a","b"],"n":0,"metadata":{}},"reward":null,"done":false}}`, ""},
		{"another writing", `{"type":"observation","data":{"done":false,"observation":{"n":0.0,"metadata":{},"items":["a","b"]}}}`, ""},
		{"a key more", `{"type":"observation","data":{"observation":{"items":["a","b"],"n":0,"x":1,"metadata":{}},"done":false}}`, "observation.x is (absent), was 1"},
		{"a key less", `{"type":"observation","data":{"observation":{"items":["a","b"],"metadata":{}},"done":false}}`, "observation.n is 0, was (absent)"},
		{"a longer list", `{"type":"observation","data":{"observation":{"items":["a","b","c"],"n":0,"metadata":{}},"done":false}}`, `observation.items[2] is (absent), was "c"`},
		{"another type", `{"type":"observation","data":{"observation":{"items":"a","n":0,"metadata":{}},"done":false}}`, `observation.items is ["a","b"], was "a"`},
		{"an error then", `{"type":"error","data":{"code":"EXECUTION_ERROR","message":"no"}}`, "error is (absent), was EXECUTION_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &record.Episode{Exchanges: []record.Exchange{record.NewExchange(frame(`{"type":"reset","data":{"seed":1}}`), frame(tt.reply))}}
			report, err := verify.Replay(t.Context(), &record.File{Episodes: []*record.Episode{e}}, target(t, &faults{}))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, d := range report.Divergences {
				got = d.String()
			}
			if want := strings.TrimSuffix("episode 0, step 0: "+tt.want, "episode 0, step 0: "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
