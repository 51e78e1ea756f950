package main

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// erlangB is the share of arrivals that find n servers busy when load of them would be
// busy on average (A. K. Erlang, 1917). It does not depend on how the lengths are spread.
func erlangB(load float64, n int) float64 {
	b := 1.0
	for i := 1; i <= n; i++ {
		b = load * b / (float64(i) + load*b)
	}
	return b
}

func simulate(t *testing.T, p Params) Result {
	t.Helper()
	r, err := Simulate(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func cluster(replicas, capacity int, load float64) Params {
	return Params{
		Replicas: replicas, Capacity: capacity, Rate: load / 10, Episode: 10 * time.Second,
		Shape: Exponential, Policy: Fewest, Warmup: 5 * time.Minute, Duration: 3 * time.Hour, Seed: 7,
	}
}

// Replicas that a refused session goes on from are one pool of slots: then the formula
// holds for all of them together. With one try each replica is a pool of its own.
func TestRefusalsAgreeWithErlang(t *testing.T) {
	for _, tt := range []struct {
		name   string
		params Params
		want   float64
	}{
		{"one replica", cluster(1, 50, 50), erlangB(50, 50)},
		{"one replica, overloaded", cluster(1, 50, 75), erlangB(75, 50)},
		{"four are one pool", cluster(4, 25, 100), erlangB(100, 100)},
	} {
		for _, shape := range []Shape{Fixed, Exponential, Heavy} {
			p := tt.params
			p.Shape = shape
			if got := simulate(t, p).RefusalRate(); math.Abs(got-tt.want) > 0.15*tt.want {
				t.Errorf("%s, %s: %.4f refused, Erlang says %.4f", tt.name, shape, got, tt.want)
			}
		}
	}
	p := cluster(4, 25, 100)
	p.Policy = Alone
	if got, want := simulate(t, p).RefusalRate(), erlangB(25, 25); math.Abs(got-want) > 0.1*want {
		t.Errorf("four pools of their own: %.4f refused, Erlang says %.4f", got, want)
	}
	p.Policy = Random
	if got, want := simulate(t, p).RefusalRate(), erlangB(100, 100); math.Abs(got-want) > 0.1*want {
		t.Errorf("random with further tries: %.4f refused, Erlang says %.4f", got, want)
	}
}

// Little's law: sessions open are the rate by the time that they stay.
func TestOpenSessionsAgreeWithLittle(t *testing.T) {
	for _, shape := range []Shape{Fixed, Exponential, Heavy} {
		p := cluster(2, 1000, 300)
		p.Shape = shape
		r := simulate(t, p)
		if r.Refused > 0 || math.Abs(r.Mean-300) > 9 {
			t.Errorf("%s: %.1f open on average, want 300; %d refused", shape, r.Mean, r.Refused)
		}
	}
}

func TestFewestFillsEvenly(t *testing.T) {
	p := cluster(4, 1000, 400)
	even := simulate(t, p)
	p.Policy = Random
	random := simulate(t, p)
	if even.Spread > 4 || random.Spread < 3*even.Spread {
		t.Errorf("fullest and emptiest are %.1f apart with the fewest first, %.1f at random", even.Spread, random.Spread)
	}
	if even.Tries != 1 {
		t.Errorf("%.2f replicas were asked for each session, with room on all", even.Tries)
	}
}

func TestDrain(t *testing.T) {
	p := cluster(4, 100, 150)
	p.Duration, p.Drain = time.Hour, 1
	for _, tt := range []struct {
		name  string
		shape Shape
		grace time.Duration
		check func(Result) bool
	}{
		{"fixed lengths end within one", Fixed, time.Minute, func(r Result) bool {
			return r.Cut == 0 && r.Drained > 9*time.Second && r.Drained <= 10*time.Second
		}},
		{"a short grace cuts", Fixed, 2 * time.Second, func(r Result) bool { return r.Cut > 20 && r.Drained == 2*time.Second }},
		{"no grace cuts all", Exponential, 0, func(r Result) bool { return r.Cut > 25 && r.Drained == 0 }},
		{"long tails outlast a grace of three lengths", Heavy, 30 * time.Second, func(r Result) bool { return r.Cut > 0 && r.Drained == 30*time.Second }},
	} {
		p.Shape, p.Grace = tt.shape, tt.grace
		if r := simulate(t, p); !tt.check(r) || r.Refused > 0 {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
	// Three replicas are too few for what four carried.
	p.Rate, p.Grace, p.Shape = 36, time.Minute, Exponential
	if r := simulate(t, p); r.RefusalRate() < 0.05 {
		t.Errorf("%.3f refused, want the half hour with three replicas to show", r.RefusalRate())
	}
}

func TestTheSameSeedIsTheSameResult(t *testing.T) {
	p := cluster(3, 40, 110)
	first, again := simulate(t, p), simulate(t, p)
	p.Seed++
	if other := simulate(t, p); first != again || first == other {
		t.Errorf("%+v, %+v, and with another seed %+v", first, again, other)
	}
}

func TestBadParams(t *testing.T) {
	for want, change := range map[string]func(*Params){
		"0 replicas":        func(p *Params) { p.Replicas = 0 },
		"rate -1":           func(p *Params) { p.Rate = -1 },
		"cannot be drained": func(p *Params) { p.Drain = p.Replicas },
		`shape "round"`:     func(p *Params) { p.Shape = "round" },
		`policy "best"`:     func(p *Params) { p.Policy = "best" },
	} {
		p := cluster(2, 10, 5)
		change(&p)
		if _, err := Simulate(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestNodeCarries(t *testing.T) {
	n := Node{Cores: 2, Memory: 1 << 30, Descriptors: 20000, SessionCPU: 500 * time.Microsecond, StepCPU: 20 * time.Microsecond, SessionSize: 32 << 10}
	cpu, memory, descriptors := n.Carries(Load{Steps: 10, Think: 90 * time.Millisecond, Wait: 10 * time.Millisecond, EnvMemory: 32 << 10})
	// An episode is a second long and costs 0.7 ms: 1.4 cores carry 2000 of them.
	if cpu != 2000 || memory != 16384 || descriptors != 19900 {
		t.Errorf("by CPU %d, by memory %d, by descriptors %d", cpu, memory, descriptors)
	}
}

func TestCommand(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"-replicas", "2", "-capacity", "10", "-rate", "1", "-episode", "5s"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), " sessions, 0 refused (0.000 %), 1.00 replicas asked each\n") {
		t.Errorf("got %s", &out)
	}
	if err := run([]string{"-replicas", "-1"}, &out); err == nil {
		t.Error("-1 replicas were simulated")
	}
}

func TestQueueGivesTheEarliest(t *testing.T) {
	var q queue
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		q.push(event{at: float64(rng.IntN(100))})
		if rng.IntN(3) == 0 {
			q.pop()
		}
	}
	for last := 0.0; len(q) > 0; {
		e := q.pop()
		if e.at < last {
			t.Fatalf("%v after %v", e.at, last)
		}
		last = e.at
	}
}

// The page quotes the command's output. make test runs this once without the race
// detector.
func TestScalingPageHasTheTables(t *testing.T) {
	if raceDetector {
		t.Skip("the simulation is too slow under the race detector")
	}
	page, err := os.ReadFile("../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(nil, &out); err != nil {
		t.Fatal(err)
	}
	for table := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n\n") {
		if !strings.Contains(string(page), table) {
			t.Errorf("docs/scaling.md lacks:\n%s", table)
		}
	}
}
