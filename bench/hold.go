package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/openenv-go/openenv/internal/load"
)

// memoryLimit is what a session may take at each end, in KiB.
const memoryLimit = 32

// runScale is the experiment at its largest alone, judged: what make scale runs.
func (b *bench) runScale(ctx context.Context) error {
	flat, last := &point{sessions: scaleFlat}, &point{sessions: scaleLast}
	runs := max(5, b.cfg.rounds)
	for run := range runs {
		for _, p := range []*point{flat, last} {
			r, err := b.scaleOurs(ctx, p)
			if err != nil {
				return err
			}
			tellf("run %d of %d: %d sessions, %.2f %% succeeded, total P99 %.2f s, %.0f µs of CPU each",
				run+1, runs, p.sessions, 100*r.SuccessRate, r.Total.P99/1e3, cpuEach(r))
			tellFailures(r)
		}
	}
	b.judgeScale([]*point{flat, last})
	if err := b.idle(ctx); err != nil {
		return err
	}
	return b.verdict()
}

// idle holds the sessions for a moment, so that all are open at the same time, and
// judges what they take.
func (b *bench) idle(ctx context.Context) error {
	r, err := b.scaleOurs(ctx, &point{sessions: scaleLast}, "--hold", "20s")
	if err != nil {
		return err
	}
	tellFailures(r)
	b.judgeMemory(r, fmt.Sprintf("%d sessions, open and idle: ", r.Sessions))
	return nil
}

func tellFailures(r *load.Result) {
	for _, f := range r.Failures {
		tellf("  %d × %s: %s", f.Count, f.Kind, f.Example)
	}
}

// judgeMemory adds what a held session takes at each end.
func (b *bench) judgeMemory(r *load.Result, what string) {
	b.report.Ratios = append(b.report.Ratios,
		atMost(what+"memory of the server, each", one(memoryEach(r.Server)), memoryLimit, "KiB"),
		atMost(what+"memory of the client, each", one(memoryEach(r.Client)), memoryLimit, "KiB"))
}

// runHold keeps the sessions open and judges their memory: what make hold runs.
func (b *bench) runHold(ctx context.Context) error {
	p := &point{sessions: scaleLast}
	r, err := b.scaleOurs(ctx, p, "--hold", b.cfg.hold.String(), "--every", "30s")
	if err != nil {
		return err
	}
	tellf("%d sessions held for %v, a step of each in 30 s: %.2f %% succeeded, %d steps, P99 %.2f s", p.sessions, b.cfg.hold, 100*r.SuccessRate, r.Steps, r.Step.P99/1e3)
	for _, s := range r.Held {
		tellf("  %6.1f s: %d open, client %d MiB, server %d MiB", s.At, s.Open, s.Client>>20, s.Server>>20)
	}
	tellFailures(r)
	b.judgeHold(r)
	return b.verdict()
}

// growth is the memory at the end of a hold by that in its middle: the medians of the
// last and of the third quarter. What the collector keeps has settled by then.
func growth(held []load.Sample, of func(load.Sample) int64) float64 {
	var values []float64
	for _, s := range held {
		values = append(values, float64(of(s)))
	}
	n := len(values)
	if n < 8 {
		return 1
	}
	return spreadOf(values[3*n/4:]).Median / spreadOf(values[n/2:3*n/4]).Median
}

func (b *bench) judgeHold(r *load.Result) {
	what := fmt.Sprintf("%d sessions held for %v: ", r.Sessions, b.cfg.hold)
	b.judgeMemory(r, what)
	b.report.Ratios = append(b.report.Ratios,
		atLeast(what+"success", one(100*r.SuccessRate), 100, "%"),
		atMost(what+"growth of the server's memory", one(growth(r.Held, func(s load.Sample) int64 { return s.Server })), 1.05, "×"),
		atMost(what+"growth of the client's memory", one(growth(r.Held, func(s load.Sample) int64 { return s.Client })), 1.05, "×"))
}

// verdict prints the judged ratios and fails when one is missed.
func (b *bench) verdict() error {
	var missed []error
	for _, r := range b.report.Ratios {
		word := "met"
		if !r.Met {
			word = "missed"
			missed = append(missed, fmt.Errorf("%s: %s %s, goal %s", r.What, number(r.Value.Median), r.Unit, r.Goal))
		}
		tellf("%s: %s %s, goal %s: %s", r.What, r.Value.text(), r.Unit, r.Goal, word)
	}
	return errors.Join(missed...)
}
