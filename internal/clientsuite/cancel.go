package clientsuite

import (
	"context"
	"errors"
	"time"

	"github.com/openenv-go/openenv"
)

var cancelCases = []testCase{
	{name: "cancel before a call sends nothing", run: cancelledBefore},
	{name: "cancel in mid-step", run: cancelledStep},
	{name: "cancel in mid-step reaches the environment", needs: interrupts, run: cancelReachesEnvironment},
	{name: "cancel of a future in mid-step", run: cancelledFuture},
	{name: "cancel of a call that waits for its turn", run: cancelledInQueue},
	{name: "the ctx of Connect bounds Connect only", run: connectContext},
	{name: "WithKeepOnCancel keeps the episode", run: keepOnCancel},
	{name: "message timeout", run: messageTimeout},
	{name: "the default message timeout", needs: fakeTime, run: defaultTimeout},
	{name: "no message timeout", run: noTimeout},
}

func cancelledBefore(p *play) {
	var rec recorder
	c := p.client(rec.option())
	p.reset(c)
	sent := len(rec.all())
	ctx, cancel := context.WithCancel(p.Context())
	cancel()
	if _, err := c.Step(ctx, Action{"no"}); !errors.Is(err, context.Canceled) {
		p.Errorf("Step: %v", err)
	}
	if _, err := c.State(ctx); !errors.Is(err, context.Canceled) {
		p.Errorf("State: %v", err)
	}
	if _, err := c.Reset(ctx); !errors.Is(err, context.Canceled) {
		p.Errorf("Reset: %v", err)
	}
	if got := len(rec.all()) - sent; got != 0 {
		p.Errorf("%d frames were sent", got)
	}
	p.step(c, "the same connection")
	p.steps(c, 1)
}

func cancelledStep(p *play) {
	c := p.client()
	p.reset(c)
	ctx, cancel := p.soon()
	defer cancel()
	start := time.Now()
	_, err := c.Step(ctx, Action{"sleep:1"})
	if !errors.Is(err, context.DeadlineExceeded) {
		p.Fatalf("Step: %v, want the end of its ctx", err)
	}
	if took := time.Since(start); took > 600*time.Millisecond {
		p.Errorf("Step returned after %v, its ctx ended after 100ms", took)
	}
	p.afresh(c)
	p.active(1, 2*time.Second)
}

// Reports: a cancel reaches the environment's step and frees its session.
func cancelReachesEnvironment(p *play) {
	c := p.client()
	p.reset(c)
	ctx, cancel := p.soon()
	defer cancel()
	if _, err := c.Step(ctx, Action{"sleep:3600"}); !errors.Is(err, context.DeadlineExceeded) {
		p.Fatalf("Step: %v, want the end of its ctx", err)
	}
	p.active(0, 500*time.Millisecond)
}

// Who waits for a future that another ran gets an error of their own.
func cancelledFuture(p *play) {
	c := p.client()
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	ctx, cancel := p.soon()
	defer cancel()
	f := c.Async().Step(Action{"sleep:1"}).Start(ctx)
	_, err := f.Await(p.Context())
	if !errors.Is(err, openenv.ErrAbandoned) || errors.Is(err, context.DeadlineExceeded) {
		p.Errorf("Await: %v, want ErrAbandoned and nobody's ctx", err)
	}
	_, err = c.Async().Step(Action{"late"}).Await(p.Context())
	p.lost("Await(Step)", err, false)
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Errorf("Await(Reset): %v", err)
	}
}

func cancelledInQueue(p *play) {
	c := p.client()
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	running := c.Async().Step(Action{"sleep:0.5"}).Start(p.Context())
	ctx, cancel := p.soon()
	defer cancel()
	if _, err := c.Async().Step(Action{"no"}).Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
		p.Errorf("Await of the step behind: %v", err)
	}
	if _, err := running.Await(p.Context()); err != nil {
		p.Errorf("Await of the step in front: %v", err)
	}
	p.steps(c, 1)
}

// Reports: a connection does not end with the ctx that it was dialled with.
func connectContext(p *play) {
	c := p.client()
	ctx, cancel := context.WithCancel(p.Context())
	if err := c.Connect(ctx); err != nil {
		p.Fatalf("Connect: %v", err)
	}
	p.reset(c, openenv.EpisodeID("e-1"))
	cancel()
	time.Sleep(50 * time.Millisecond) // for the cancellation to have its effect
	for range 10 {
		p.step(c, "hi")
	}
	if got := p.steps(c, 10); got != "e-1" {
		p.Errorf("episode %q, want e-1", got)
	}
}

func keepOnCancel(p *play) {
	c := p.client(openenv.WithKeepOnCancel())
	p.reset(c, openenv.EpisodeID("kept"))
	ctx, cancel := p.soon()
	defer cancel()
	if _, err := c.Step(ctx, Action{"sleep:0.3"}); !errors.Is(err, context.DeadlineExceeded) {
		p.Fatalf("Step: %v, want the end of its ctx", err)
	}
	p.step(c, "the late reply is not mine")
	if got := p.steps(c, 2); got != "kept" {
		p.Errorf("episode %q, want kept", got)
	}
}

func messageTimeout(p *play) {
	const limit = 200 * time.Millisecond
	c := p.client(openenv.WithMessageTimeout(limit))
	p.reset(c)
	start := time.Now()
	_, err := c.Step(p.Context(), Action{"sleep:1"})
	if !errors.Is(err, openenv.ErrMessageTimeout) {
		p.Errorf("Step: %v, want ErrMessageTimeout", err)
	}
	if took := time.Since(start); took < limit || took > limit+500*time.Millisecond {
		p.Errorf("Step failed after %v, want %v", took, limit)
	}
	_, err = c.Step(p.Context(), Action{"late"})
	p.lost("Step", err, false)
	if !errors.Is(err, openenv.ErrMessageTimeout) {
		p.Errorf("Step: %v does not say why the session is lost", err)
	}
	p.afresh(c)
	child, err := c.NewSession(p.Context())
	if err != nil {
		p.Fatalf("NewSession: %v", err)
	}
	if _, err := child.Step(p.Context(), Action{"sleep:1"}); !errors.Is(err, openenv.ErrMessageTimeout) {
		p.Errorf("Step of a child: %v, want ErrMessageTimeout: children have their parent's options", err)
	}
}

func defaultTimeout(p *play) {
	c := p.client()
	p.reset(c)
	if _, err := c.Step(p.Context(), Action{"sleep:59"}); err != nil {
		p.Fatalf("Step below the limit: %v", err)
	}
	start := time.Now()
	_, err := c.Step(p.Context(), Action{"sleep:61"})
	if !errors.Is(err, openenv.ErrMessageTimeout) || time.Since(start) != openenv.DefaultMessageTimeout {
		p.Errorf("Step failed after %v: %v", time.Since(start), err)
	}
	p.afresh(c)
}

func noTimeout(p *play) {
	nap := "sleep:0.3"
	if p.target.Bubble {
		nap = "sleep:36000"
	}
	c := p.client(openenv.WithMessageTimeout(0), openenv.WithConnectTimeout(0))
	p.reset(c)
	p.step(c, nap)
	p.steps(c, 1)
}
