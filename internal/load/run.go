package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Result is what became of one batch. Times that many sessions share count from the
// begin of the batch.
type Result struct {
	Sessions          int       `json:"sessions"`
	Succeeded         int       `json:"succeeded"` // from connect to close, without any error
	SuccessRate       float64   `json:"success_rate"`
	Steps             int64     `json:"steps"` // answered, held sessions' included
	Seconds           float64   `json:"seconds"`
	StepsPerSecond    float64   `json:"steps_per_second"`
	SessionsPerSecond float64   `json:"sessions_per_second"`
	PeakOpen          int       `json:"peak_open"` // sessions open at the same time
	Connect           Latency   `json:"connect"`   // dial, upgrade and admission
	Reset             Latency   `json:"reset"`
	Step              Latency   `json:"step"`
	Total             Latency   `json:"total"` // from the begin of the batch to the session's close
	Failures          []Failure `json:"failures"`
	Client            *Usage    `json:"client,omitempty"` // this process; nil where it cannot be seen
	Server            *Usage    `json:"server,omitempty"` // nil in this process, too
	Held              []Sample  `json:"held,omitempty"`

	errs []error
}

// Err is nil when every session succeeded. Otherwise it counts those that did not and
// matches the first failure of each kind.
func (r *Result) Err() error {
	if r.Succeeded == r.Sessions {
		return nil
	}
	return fmt.Errorf("%d of %d sessions failed: %w", r.Sessions-r.Succeeded, r.Sessions, errors.Join(r.errs...))
}

// Run plays one batch. The error is of the plan; what happens to sessions is in the
// result. When ctx ends the sessions fail, and what was measured is returned.
func Run(ctx context.Context, p Plan) (*Result, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	root, err := p.open()
	if err != nil {
		return nil, err
	}
	server := p.Server
	if server == 0 {
		server = listener(p.URL)
	}
	dials := p.Dials
	if dials == 0 {
		dials = DefaultDials
	}
	b := &batch{
		plan: p, root: root, dials: make(chan struct{}, dials),
		connect: newRecorder(), reset: newRecorder(), step: newRecorder(), total: newRecorder(),
		meter: startMeter(ctx, server),
	}
	b.play(ctx)
	res := b.result()
	_ = root.Close() // its children have been closed, and it was never connected
	return res, nil
}

// batch is a run in progress.
type batch struct {
	plan  Plan
	root  *client
	dials chan struct{}
	meter *meter

	connect, reset, step, total *recorder

	begin     time.Time
	elapsed   time.Duration
	open      atomic.Int64
	peak      atomic.Int64
	steps     atomic.Int64
	succeeded atomic.Int64
	failures  failures

	hold hold
}

func (b *batch) play(ctx context.Context) {
	var sessions sync.WaitGroup
	b.hold.arriving.Add(b.plan.Sessions)
	b.hold.over = make(chan struct{})
	holding := b.plan.Hold > 0
	var holder sync.WaitGroup
	if holding {
		holder.Go(func() { b.holdAll(ctx) })
	}
	b.begin = time.Now()
	for range b.plan.Sessions {
		sessions.Go(func() { b.session(ctx) })
	}
	sessions.Wait()
	b.elapsed = time.Since(b.begin)
	holder.Wait()
}

// session is one from its dial to its close.
func (b *batch) session(ctx context.Context) {
	arrived := sync.OnceFunc(b.hold.arriving.Done)
	defer arrived()
	env, err := b.dial(ctx)
	if err != nil {
		b.failures.add("connect", err)
		return
	}
	b.opened()
	phase, err := b.episode(ctx, env, arrived)
	b.open.Add(-1)
	closed := env.Close()
	switch {
	case err != nil:
		b.failures.add(phase, err)
	case closed != nil:
		b.failures.add("close", closed)
	default:
		b.total.add(time.Since(b.begin))
		b.succeeded.Add(1)
	}
}

// dial connects when it is this session's turn.
func (b *batch) dial(ctx context.Context) (*client, error) {
	select {
	case b.dials <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-b.dials }()
	start := time.Now()
	env, err := b.root.NewSession(ctx)
	if err == nil {
		b.connect.add(time.Since(start))
	}
	return env, err
}

func (b *batch) opened() {
	for open := b.open.Add(1); ; {
		peak := b.peak.Load()
		if open <= peak || b.peak.CompareAndSwap(peak, open) {
			return
		}
	}
}

// episode resets and steps. The error is that of the phase.
func (b *batch) episode(ctx context.Context, env *client, arrived func()) (phase string, err error) {
	start := time.Now()
	if _, err := env.Reset(ctx); err != nil {
		return "reset", err
	}
	b.reset.add(time.Since(start))
	for range b.plan.Steps {
		if err := b.stepOnce(ctx, env); err != nil {
			return "step", err
		}
	}
	if b.plan.Hold == 0 {
		return "", nil
	}
	arrived()
	return "held step", b.stay(ctx, env)
}

func (b *batch) stepOnce(ctx context.Context, env *client) error {
	start := time.Now()
	if _, err := env.Step(ctx, b.plan.Action); err != nil {
		return err
	}
	b.step.add(time.Since(start))
	b.steps.Add(1)
	return nil
}

func (b *batch) result() *Result {
	r := &Result{
		Sessions:  b.plan.Sessions,
		Succeeded: int(b.succeeded.Load()),
		Steps:     b.steps.Load(),
		Seconds:   b.elapsed.Seconds(),
		PeakOpen:  int(b.peak.Load()),
		Connect:   b.connect.latency(), Reset: b.reset.latency(), Step: b.step.latency(), Total: b.total.latency(),
		Failures: slices.Clone(b.failures.all),
		Held:     b.hold.samples,
		errs:     b.failures.errs,
	}
	r.SuccessRate = float64(r.Succeeded) / float64(r.Sessions)
	r.StepsPerSecond = float64(r.Steps) / r.Seconds
	r.SessionsPerSecond = float64(r.Succeeded) / r.Seconds
	r.Client, r.Server = b.meter.end(r.PeakOpen, b.hold.open)
	return r
}
