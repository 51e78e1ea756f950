// Command sim simulates the placement of sessions over replicas: how many are refused,
// how even replicas fill, and how long it takes to take one away.
//
//	go run ./bench/sim                                     # the tables of docs/scaling.md
//	go run ./bench/sim -replicas 4 -capacity 1000 -rate 60 -episode 1m -policy random
//	go run ./bench/sim -replicas 4 -capacity 1000 -rate 30 -episode 1m -drain 1 -grace 2m
//
// It is a model, with the measured cost of a session on one node as its parameters, and
// agrees with Erlang's formula where that applies (the tests).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

// measured is the node of the measurements: both cores, as a server that does not share
// them with its clients, and 4 GiB for sessions.
var measured = Node{
	Cores: 2, Memory: 4 << 30, Descriptors: 20000,
	SessionCPU: 260 * time.Microsecond, StepCPU: 10 * time.Microsecond, SessionSize: 25 << 10,
}

func run(args []string, out io.Writer) error {
	p := Params{Shape: Exponential, Policy: Fewest}
	f := flag.NewFlagSet("sim", flag.ContinueOnError)
	f.IntVar(&p.Replicas, "replicas", 0, "servers (without it: the tables of docs/scaling.md)")
	f.IntVar(&p.Capacity, "capacity", 1000, "sessions of each")
	f.Float64Var(&p.Rate, "rate", 50, "sessions that arrive in a second")
	f.DurationVar(&p.Episode, "episode", time.Minute, "mean time that a session is open")
	f.StringVar((*string)(&p.Shape), "shape", string(p.Shape), "of the times: fixed, exponential or heavy")
	f.StringVar((*string)(&p.Policy), "policy", string(p.Policy), `fewest, random or "random, one try"`)
	f.DurationVar(&p.Warmup, "warmup", 10*time.Minute, "simulated time that is not counted")
	f.DurationVar(&p.Duration, "for", time.Hour, "simulated time that is")
	f.IntVar(&p.Drain, "drain", 0, "replicas that are taken away in the middle")
	f.DurationVar(&p.Grace, "grace", 2*time.Minute, "what a drained replica's sessions may still take")
	f.Uint64Var(&p.Seed, "seed", 1, "of the random numbers; the same seed is the same result")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case p.Replicas == 0:
		return tables(out)
	}
	r, err := Simulate(p)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d sessions, %d refused (%.3f %%), %.2f replicas asked each\n"+
		"%.0f open on average, %d at most on one replica, fullest and emptiest %.0f apart\n"+
		"%d cut off, drained after %v\n",
		r.Arrived, r.Refused, 100*r.RefusalRate(), r.Tries, r.Mean, r.Peak, r.Spread, r.Cut, r.Drained.Round(time.Second))
	return err
}
