package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/gridworld"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/policy"
	"github.com/openenv-go/openenv/rollout/record"
)

// The records do not depend on how many sessions and servers play them.
func TestRecordsAreTheSameForAnyNumberOfSessions(t *testing.T) {
	leak.Check(t)
	cfg := rollout.Config{Episodes: 60, Seed: 3, Limits: record.Limits{Steps: 20}}
	var want []string
	for _, tt := range []struct {
		name     string
		sessions int
		servers  []int // their capacities
	}{
		{"one session", 1, []int{1}},
		{"sixteen sessions", 16, []int{16}},
		{"more sessions than there is room for", 16, []int{3}},
		{"two servers", 7, []int{2, 16}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := cfg
			cfg.Sessions, cfg.Out = tt.sessions, out(t)
			var urls []string
			for _, n := range tt.servers {
				urls = append(urls, openenvtest.ServeLoopback(t, server(t, "gridworld", n)).URL())
			}
			summary := play(t, rollout.URLs(urls...), policy.Random(), cfg)
			if summary.Episodes != cfg.Episodes || summary.Returns.Count != cfg.Episodes || summary.Endings[record.Terminated] == 0 || summary.Endings[record.Truncated] == 0 {
				t.Errorf("summary %+v", summary)
			}
			got := apartFromAttempts(t, cfg.Out)
			if want == nil {
				want = got
			}
			compare(t, got, want)
		})
	}
}

// A typed policy plays a typed client, and what it plays is on file all the same.
func TestTypedPolicy(t *testing.T) {
	leak.Check(t)
	right := rollout.Func("right", func(context.Context, *rand.Rand, openenv.StepResult[gridworld.Observation]) (gridworld.Action, error) {
		return gridworld.Action{Move: "right"}, nil
	})
	cfg := rollout.Config{Episodes: 3, Seed: 1, Limits: record.Limits{Steps: 4}, Reset: openenv.Object{"width": 9}, Out: out(t)}
	run, err := rollout.Run(t.Context(), gridworld.Spec, rollout.Embedded(server(t, "gridworld", 4)), right, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range run.Episodes() {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if len(e.Exchanges) != e.Steps+1 || string(e.Exchanges[1].Data) != `{"move":"right"}` {
			t.Errorf("episode %+v", e)
		}
		var params map[string]any
		if err := json.Unmarshal(e.Exchanges[0].Data, &params); err != nil || params["width"] != 9.0 || params["seed"] != float64(*e.Seed) {
			t.Errorf("reset %s, %v", e.Exchanges[0].Data, err)
		}
	}
	if summary, err := run.Wait(); err != nil || n != 3 || summary.Episodes != 3 {
		t.Errorf("%d episodes, %+v, %v", n, summary, err)
	}
}

// scripted is a server in memory whose steps are answered by step, which is told the
// session and the step of the episode; in it time is free.
func scripted(t *testing.T, step func(p *openenvtest.Peer, n int)) *openenvtest.Server {
	t.Helper()
	return openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
		n := 0
		for {
			f, ok := p.Next()
			switch {
			case !ok:
				return
			case f.Type == "state":
				p.State(`{}`)
			case f.Type == "reset":
				n = 0
				p.Observation(`{"ready":true}`)
			default:
				n++
				step(p, n)
			}
		}
	}))
}

// wait is a policy that has one action.
func wait() rollout.Policy[json.RawMessage, json.RawMessage] {
	return rollout.Func("wait", func(context.Context, *rand.Rand, openenv.StepResult[json.RawMessage]) (json.RawMessage, error) {
		return json.RawMessage(`{}`), nil
	})
}

func TestEndings(t *testing.T) {
	low, high := -1.0, 3.5
	reward := func(value string, last int) func(*openenvtest.Peer, int) {
		return func(p *openenvtest.Peer, n int) {
			p.Sendf(`{"type":"observation","data":{"observation":{"n":%d},"reward":%s,"done":%v}}`, n, value, n == last)
		}
	}
	for _, tt := range []struct {
		name     string
		step     func(*openenvtest.Peer, int)
		limits   record.Limits
		ending   record.Ending
		limit    record.Limit
		steps    int
		returned float64
		err      string
	}{
		{"done", reward("1", 3), record.Limits{Steps: 5}, record.Terminated, "", 3, 3, ""},
		{"done in the last step", reward("1", 3), record.Limits{Steps: 3}, record.Terminated, "", 3, 3, ""},
		{"steps", reward("1", 9), record.Limits{Steps: 3}, record.Truncated, record.LimitSteps, 3, 3, ""},
		{"highest return", reward("1", 9), record.Limits{MaxReturn: &high}, record.Truncated, record.LimitReturn, 4, 4, ""},
		{"lowest return", reward("-0.5", 9), record.Limits{MinReturn: &low}, record.Truncated, record.LimitReturn, 2, -1, ""},
		{"no reward", reward("null", 2), record.Limits{}, record.Terminated, "", 2, 0, ""},
		{"true is one", reward("true", 2), record.Limits{}, record.Terminated, "", 2, 2, ""},
		{"time", func(p *openenvtest.Peer, _ int) {
			time.Sleep(3 * time.Second)
			p.Observation(`{}`)
		}, record.Limits{Time: 10 * time.Second}, record.Truncated, record.LimitTime, 3, 0, ""},
		{"an error", func(p *openenvtest.Peer, _ int) { p.Error("EXECUTION_ERROR", "boom") }, record.Limits{}, record.EnvError, "", 0, 0, "EXECUTION_ERROR: boom"},
		{"a reply of no use", func(p *openenvtest.Peer, _ int) { p.Observation(`null`) }, record.Limits{}, record.EnvError, "", 0, 0, "observation is missing or null"},
		{"lost", func(p *openenvtest.Peer, _ int) { p.Abort() }, record.Limits{}, record.Lost, "", 0, 0, "session lost"},
		{"no answer", func(p *openenvtest.Peer, _ int) { p.Silence() }, record.Limits{}, record.Lost, "", 0, 0, "no reply within the message timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := out(t)
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				srv := scripted(t, tt.step)
				cfg := rollout.Config{Episodes: 2, Limits: tt.limits, Options: []openenv.Option{srv.Option()}, Out: path, MaxAttempts: 3}
				summary := play(t, rollout.URLs(srv.URL()), wait(), cfg)
				attempts, means := 2, 2
				if tt.ending == record.Lost {
					attempts = 6
				}
				if !tt.ending.Counts() {
					means = 0
				}
				if summary.Attempts != attempts || summary.Returns.Count != means || summary.Endings[tt.ending] != 2 {
					t.Errorf("summary %+v", summary)
				}
			})
			for _, e := range load(t, path).Episodes {
				if e.Ending != tt.ending || e.Limit != tt.limit || e.Steps != tt.steps || e.Return != tt.returned || !strings.Contains(e.Error, tt.err) || (tt.err == "") != (e.Error == "") {
					t.Errorf("got %s %s, %d steps, return %v, error %q", e.Ending, e.Limit, e.Steps, e.Return, e.Error)
				}
				for i, a := range e.Attempts {
					if a.Number != i+1 || a.Ending != tt.ending || a.Steps != tt.steps {
						t.Errorf("attempt %+v", a)
					}
				}
			}
		})
	}
}

// An episode whose session is lost begins again at its reset, with the same seed and
// the same chance for its policy.
func TestLostAttemptBeginsAgain(t *testing.T) {
	path := out(t)
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		lost := false
		srv := scripted(t, func(p *openenvtest.Peer, n int) {
			if n == 3 && !lost {
				lost = true
				p.Abort()
				return
			}
			p.Sendf(`{"type":"observation","data":{"observation":{"n":%d},"reward":1,"done":%v}}`, n, n == 5)
		})
		cfg := rollout.Config{Episodes: 1, Options: []openenv.Option{srv.Option()}, Out: path}
		summary := play(t, rollout.URLs(srv.URL()), messages(), cfg)
		if summary.Returns.Mean != 5 || summary.Attempts != 2 || summary.LostAttempts != 1 {
			t.Errorf("summary %+v", summary)
		}
	})
	e := load(t, path).Episodes[0]
	if len(e.Exchanges) != 6 || e.Attempts[0].Ending != record.Lost || e.Attempts[0].Steps != 2 || e.Attempts[1].Ending != record.Terminated || e.Attempts[1].Steps != 5 {
		t.Errorf("episode %+v", e)
	}
}

// ctx ends a run: what was finished is on file, what was under way is on file as
// cancelled, and a resumed run plays the rest.
func TestCancelAndResume(t *testing.T) {
	leak.Check(t)
	target := func() rollout.Target { return rollout.Embedded(server(t, "gridworld", 8)) }
	cfg := rollout.Config{Episodes: 40, Sessions: 4, Seed: 5, Limits: record.Limits{Steps: 30}, Out: out(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run, err := rollout.Run(ctx, rollout.Raw, target(), policy.Random(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[record.Ending]int{}
	var failed error
	for e, err := range run.Episodes() {
		if err != nil {
			failed = err
			break
		}
		if seen[e.Ending]++; len(seen) == 1 && seen[e.Ending] == 10 {
			cancel()
		}
	}
	if _, err := run.Wait(); !errors.Is(err, context.Canceled) || !errors.Is(failed, context.Canceled) {
		t.Errorf("Wait: %v, Episodes: %v", err, failed)
	}
	onFile := map[record.Ending]int{}
	for _, e := range load(t, cfg.Out).Episodes {
		onFile[e.Ending]++
	}
	if !reflect.DeepEqual(onFile, seen) || onFile[record.Terminated]+onFile[record.Truncated] < 10 {
		t.Errorf("%v on file, %v were seen", onFile, seen)
	}

	cfg.Resume = true
	if run, err = rollout.Run(t.Context(), rollout.Raw, target(), policy.Random(), cfg); err != nil {
		t.Fatal(err)
	}
	if whole := seen[record.Terminated] + seen[record.Truncated]; run.Skipped() != whole {
		t.Errorf("%d episodes skipped, want %d", run.Skipped(), whole)
	}
	if summary, err := run.Wait(); err != nil || summary.Episodes != cfg.Episodes-run.Skipped() {
		t.Errorf("%+v, %v", summary, err)
	}
	nothingLeft, err := rollout.Run(t.Context(), rollout.Raw, target(), policy.Random(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if summary, err := nothingLeft.Wait(); err != nil || summary.Episodes != 0 || nothingLeft.Skipped() != cfg.Episodes {
		t.Errorf("once more: %+v, %v", summary, err)
	}
	undisturbed := cfg
	undisturbed.Resume, undisturbed.Out = false, out(t)
	play(t, target(), policy.Random(), undisturbed)
	want := load(t, undisturbed.Out).Episodes
	for i, e := range load(t, cfg.Out).Episodes {
		if e.Attempts, want[i].Attempts = nil, nil; !reflect.DeepEqual(e, want[i]) {
			t.Errorf("episode %d is %+v, want %+v", i, e, want[i])
		}
	}
}

// Leaving the loop stops the run, and that is no error.
func TestLeavingTheLoop(t *testing.T) {
	leak.Check(t)
	run, err := rollout.Run(t.Context(), rollout.Raw, rollout.Embedded(server(t, "gridworld", 2)), policy.Random(), rollout.Config{Episodes: 10_000, Sessions: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range run.Episodes() {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if p := run.Progress(); p.Episodes == 0 || p.Total != 10_000 {
		t.Errorf("progress %+v", p)
	}
	if summary, err := run.Wait(); err != nil || summary.Episodes > 100 {
		t.Errorf("%+v, %v", summary, err)
	}
}

// What the policy does wrong ends the run with its error; nothing of it is an ending
// of the environment.
func TestPolicyFailures(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name string
		act  func() (json.RawMessage, error)
		want string
	}{
		{"error", func() (json.RawMessage, error) { return nil, boom }, "policy: act: boom"},
		{"not an action", func() (json.RawMessage, error) { return json.RawMessage(`[]`), nil }, "policy bad: step: encode: raw data is not a JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			p := rollout.Func("bad", func(context.Context, *rand.Rand, openenv.StepResult[json.RawMessage]) (json.RawMessage, error) {
				return tt.act()
			})
			run, err := rollout.Run(t.Context(), rollout.Raw, rollout.Embedded(server(t, "echo", 2)), p, rollout.Config{Episodes: 5, Sessions: 2})
			if err != nil {
				t.Fatal(err)
			}
			summary, err := run.Wait()
			if err == nil || !strings.Contains(err.Error(), tt.want) || summary.Episodes != summary.Endings[record.Cancelled] {
				t.Errorf("%+v, %v", summary, err)
			}
		})
	}
}

// What is wrong with a run is said before anything is played.
func TestRunRefuses(t *testing.T) {
	leak.Check(t)
	echo := openenvtest.ServeLoopback(t, server(t, "echo", 2)).URL()
	grid := openenvtest.ServeLoopback(t, server(t, "gridworld", 2)).URL()
	path := out(t)
	cfg := rollout.Config{Episodes: 1, Out: path, Seed: 1, Limits: record.Limits{Steps: 3}}
	play(t, rollout.URLs(echo), messages(), cfg)
	for _, tt := range []struct {
		name   string
		target rollout.Target
		change func(*rollout.Config)
		want   string
	}{
		{"no episodes", rollout.URLs(echo), func(c *rollout.Config) { c.Episodes = 0 }, "number of episodes 0 is below 1"},
		{"no target", rollout.Target{}, func(*rollout.Config) {}, "target has no server"},
		{"no URL", rollout.URLs("ftp://example.org"), func(*rollout.Config) {}, "ftp"},
		{"negative limit", rollout.URLs(echo), func(c *rollout.Config) { c.Limits.Steps = -1 }, "limit of -1 steps is negative"},
		{"seed as a parameter", rollout.URLs(echo), func(c *rollout.Config) { c.Reset = openenv.Object{"seed": 1} }, "seed is the run's to give"},
		{"two environments", rollout.URLs(echo, grid), func(*rollout.Config) {}, "do not serve the same environment"},
		{"file exists", rollout.URLs(echo), func(*rollout.Config) {}, "file exists"},
		{"another seed", rollout.URLs(echo), func(c *rollout.Config) { c.Resume, c.Seed = true, 2 }, "another run: seed: 1 there, 2 here"},
		{"another environment", rollout.URLs(grid), func(c *rollout.Config) { c.Resume = true }, "another run: schema: sha256:"},
		{"resume of nothing", rollout.URLs(echo), func(c *rollout.Config) { c.Resume, c.Out = true, "" }, "resume without a file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := cfg
			tt.change(&cfg)
			_, err := rollout.Run(t.Context(), rollout.Raw, tt.target, messages(), cfg)
			if err == nil || !strings.HasPrefix(err.Error(), "rollout: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// Nobody who can be reached: the run ends when its patience does, and says why.
func TestPatience(t *testing.T) {
	path := out(t)
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) { p.Error("FACTORY_ERROR", "no room on the disk") }))
		cfg := rollout.Config{Episodes: 3, Sessions: 2, Options: []openenv.Option{srv.Option()}, Out: path, Patience: 20 * time.Second}
		run, err := rollout.Run(t.Context(), rollout.Raw, rollout.URLs(srv.URL()), wait(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = run.Wait()
		if err == nil || !strings.Contains(err.Error(), "no server can be reached for 20s") || !strings.Contains(err.Error(), "no room on the disk") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took < 20*time.Second || took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A full server is asked again after growing pauses, and not more often.
func TestCapacityBackoff(t *testing.T) {
	path := out(t)
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		start := time.Now()
		script := openenvtest.Script(t, func(p *openenvtest.Peer) {
			if time.Since(start) < 3*time.Second {
				p.Error("CAPACITY_REACHED", "full")
				return
			}
			for {
				f, ok := p.Next()
				if !ok {
					return
				}
				if f.Type == "state" {
					p.State(`{}`)
					continue
				}
				p.Sendf(`{"type":"observation","data":{"observation":{},"reward":1,"done":%v}}`, f.Type == "step")
			}
		})
		srv := openenvtest.Serve(t, script)
		cfg := rollout.Config{Episodes: 4, Sessions: 2, Options: []openenv.Option{srv.Option()}, Out: path}
		summary := play(t, rollout.URLs(srv.URL()), wait(), cfg)
		if summary.Returns.Count != 4 || summary.LostAttempts != 0 {
			t.Errorf("summary %+v", summary)
		}
		// Two at once at first, and then one after each pause of 100 ms, 200 ms, …
		if n := script.Accepted(); n > 10 {
			t.Errorf("%d sockets", n)
		}
	})
}

func TestEpisodeSeeds(t *testing.T) {
	seen := map[int64]bool{}
	for n := range 100_000 {
		seed := rollout.EpisodeSeed(1, n)
		if seed < 0 || seed >= 1<<32 || seen[seed] {
			t.Fatalf("episode %d has the seed %d, which is out of range or another's", n, seed)
		}
		seen[seed] = true
	}
	shared := 0
	for n := range 1000 {
		if seen[rollout.EpisodeSeed(2, n)] {
			shared++
		}
	}
	if shared > 5 {
		t.Errorf("another run shares %d of 1000 seeds", shared)
	}
	// Records stay comparable: a seed does not change its meaning.
	if got := []int64{rollout.EpisodeSeed(0, 0), rollout.EpisodeSeed(0, 1), rollout.EpisodeSeed(-1, 0)}; !reflect.DeepEqual(got, goldenSeeds) {
		t.Errorf("seeds %v, want %v", got, goldenSeeds)
	}
}

var goldenSeeds = []int64{1877095233, 2367590804, 2501613324}
