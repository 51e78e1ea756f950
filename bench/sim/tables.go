package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// loads are the kinds of work that docs/scaling.md speaks of.
var loads = []struct {
	name string
	load Load
}{
	{"the scaling experiment: 1 step that waits 1 s", Load{Steps: 1, Wait: time.Second}},
	{"a language model: 20 steps, 5 s of thinking each", Load{Steps: 20, Think: 5 * time.Second, EnvCPU: time.Millisecond, EnvMemory: 100 << 10}},
	{"a small policy: 500 steps, 2 ms of thinking each", Load{Steps: 500, Think: 2 * time.Millisecond, EnvCPU: 50 * time.Microsecond}},
	{"a browser: 30 steps, 5 s of thinking, 200 ms of CPU, 300 MiB", Load{Steps: 30, Think: 5 * time.Second, EnvCPU: 200 * time.Millisecond, EnvMemory: 300 << 20}},
}

// tables writes those of docs/scaling.md.
func tables(out io.Writer) error {
	var b strings.Builder
	nodeTable(&b)
	for _, table := range []func(*strings.Builder) error{placementTable, headroomTable, drainTable} {
		b.WriteString("\n")
		if err := table(&b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func nodeTable(b *strings.Builder) {
	b.WriteString("| work of a session | by CPU | by memory | by descriptors |\n|---|---|---|---|\n")
	for _, l := range loads {
		cpu, memory, descriptors := measured.Carries(l.load)
		fmt.Fprintf(b, "| %s | %d | %d | %d |\n", l.name, cpu, memory, descriptors)
	}
}

// base is a cluster of four small replicas under a load that fills 95 % of it.
func base() Params {
	return Params{
		Replicas: 4, Capacity: 1000, Rate: 63, Episode: time.Minute, Shape: Exponential, Policy: Fewest,
		Warmup: 5 * time.Minute, Duration: 20 * time.Minute, Seed: 1,
	}
}

func placementTable(b *strings.Builder) error {
	b.WriteString("| placement | lengths | refused | replicas asked | fullest − emptiest |\n|---|---|---|---|---|\n")
	for _, policy := range []Policy{Fewest, Random, Alone} {
		for _, shape := range []Shape{Fixed, Exponential, Heavy} {
			p := base()
			p.Policy, p.Shape = policy, shape
			r, err := Simulate(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(b, "| %s | %s | %.3f %% | %.2f | %.0f |\n", policy, shape, 100*r.RefusalRate(), r.Tries, r.Spread)
		}
	}
	return nil
}

// headroomTable is how many replicas a load needs.
func headroomTable(b *strings.Builder) error {
	b.WriteString("| replicas of 1,000 | load, share of the slots | refused, fewest | refused, one try |\n|---|---|---|---|\n")
	for _, replicas := range []int{1, 4, 16} {
		for _, share := range []float64{0.9, 0.95, 1.0, 1.1} {
			p := base()
			p.Replicas = replicas
			p.Rate = share * float64(replicas*p.Capacity) / p.Episode.Seconds()
			fewest, err := Simulate(p)
			if err != nil {
				return err
			}
			p.Policy = Alone
			alone, err := Simulate(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(b, "| %d | %.0f %% | %.3f %% | %.3f %% |\n", replicas, 100*share, 100*fewest.RefusalRate(), 100*alone.RefusalRate())
		}
	}
	return nil
}

func drainTable(b *strings.Builder) error {
	b.WriteString("| lengths, mean 1 min | grace | sessions cut off | empty after | refused |\n|---|---|---|---|---|\n")
	for _, shape := range []Shape{Fixed, Exponential, Heavy} {
		for _, grace := range []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute} {
			p := base()
			p.Rate, p.Shape, p.Drain, p.Grace = 45, shape, 1, grace
			r, err := Simulate(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(b, "| %s | %v | %d | %v | %.3f %% |\n", shape, grace, r.Cut, r.Drained.Round(time.Second), 100*r.RefusalRate())
		}
	}
	return nil
}
