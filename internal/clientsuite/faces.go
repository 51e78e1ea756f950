package clientsuite

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/openenv-go/openenv"
)

var faceCases = []testCase{
	{name: "blocking calls", run: blockingCalls},
	{name: "blocking calls without Connect", run: blockingWithoutConnect},
	{name: "futures", run: futures},
	{name: "Connect and the like claim no face", run: claimNothing},
	{name: "hand-over from futures to blocking calls", run: handOver},
	{name: "Get is the blocking call", run: getBlocks},
	{name: "futures after blocking calls are refused, nothing sent", run: futuresRefused},
	{name: "blocking calls beside a started future are refused, nothing sent", run: pendingRefused},
	{name: "a verb written once has both faces", run: deferred},
}

func blockingCalls(p *play) {
	c := p.client()
	for range 3 { // idempotent: reports, one client is at most one session
		if err := c.Connect(p.Context()); err != nil {
			p.Fatalf("Connect: %v", err)
		}
	}
	p.active(1, 0)
	p.reset(c)
	p.step(c, "hi")
	p.step(c, "there")
	p.steps(c, 2)
	if got := c.ExecMode(); got != openenv.ExecBlocking {
		p.Errorf("mode %v, want blocking", got)
	}
	p.active(1, 0)
}

// Reports: a result does not depend on whether the client was connected before.
func blockingWithoutConnect(p *play) {
	c := p.client()
	p.reset(c)
	p.step(c, "hi")
	p.steps(c, 1)
	p.steps(p.client(), 0)
}

func futures(p *play) {
	c := p.client()
	a := c.Async()
	if a.Sync() != c || c.Async() != a {
		p.Error("Async and Sync are not the same pointers each time")
	}
	f := a.Reset()
	if _, err := f.Result(); !errors.Is(err, openenv.ErrPending) {
		p.Errorf("Result of an untouched future: %v", err)
	}
	if got := c.ExecMode(); got != openenv.ExecNone {
		p.Errorf("mode %v after a description, want none", got)
	}
	res, err := f.Await(p.Context())
	if err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	p.wantReady(res)
	if got := c.ExecMode(); got != openenv.ExecAsync {
		p.Errorf("mode %v, want async", got)
	}

	step := a.Step(Action{"hi"}).Start(p.Context())
	<-step.Done()
	for range 2 {
		if res, err = step.Await(p.Context()); err != nil || res.Observation.Echoed != "hi" {
			p.Fatalf("Await(Step) = %+v, %v", res, err)
		}
	}
	state, err := a.State().Await(p.Context())
	if err != nil || state.StepCount != 1 {
		p.Fatalf("Await(State) = %+v, %v, want 1 step", state, err)
	}
	if _, err := a.Disconnect().Await(p.Context()); err != nil {
		p.Errorf("Await(Disconnect): %v", err)
	}
	if _, err := a.Close().Await(p.Context()); err != nil {
		p.Errorf("Await(Close): %v", err)
	}
	if _, err := a.Step(Action{"late"}).Await(p.Context()); !errors.Is(err, openenv.ErrClosed) {
		p.Errorf("Await(Step) after Close: %v", err)
	}
}

func claimNothing(p *play) {
	c := p.client()
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Connect", func() error { return c.Connect(p.Context()) }},
		{"Health", func() error { _, err := c.Health(p.Context()); return err }},
		{"NewSession", func() error { _, err := c.NewSession(p.Context()); return err }},
		{"Async.NewSession", func() error { _, err := c.Async().NewSession().Await(p.Context()); return err }},
		{"Async.Connect", func() error { _, err := c.Async().Connect().Await(p.Context()); return err }},
		{"Disconnect", func() error { return c.Disconnect(p.Context()) }},
	} {
		if err := call.do(); err != nil {
			p.Fatalf("%s: %v", call.name, err)
		}
		if got := c.ExecMode(); got != openenv.ExecNone {
			p.Errorf("mode %v after %s, want none", got, call.name)
		}
	}
}

// The original's hand-over: an asynchronous bootstrap and a blocking loop, on the
// same socket and in the same episode.
func handOver(p *play) {
	c := p.client()
	if _, err := c.Async().Reset(openenv.EpisodeID("e-1")).Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	if _, err := c.Async().Step(Action{"one"}).Await(p.Context()); err != nil {
		p.Fatalf("Await(Step): %v", err)
	}
	p.step(c, "two")
	if got := p.steps(c, 2); got != "e-1" {
		p.Errorf("episode %q after the hand-over, want e-1", got)
	}
	_, err := c.Async().Step(Action{"three"}).Await(p.Context())
	p.refused("future after the hand-over", err, openenv.ExecBlocking, openenv.ExecAsync, false)
	p.steps(c, 2)
}

func getBlocks(p *play) {
	c := p.client()
	f := c.Async().Reset()
	if _, err := f.Get(p.Context()); err != nil {
		p.Fatalf("Get(Reset): %v", err)
	}
	if got := c.ExecMode(); got != openenv.ExecBlocking {
		p.Errorf("mode %v after Get, want blocking", got)
	}
	// A settled future is only read: no claim, no second reset.
	p.step(c, "hi")
	if _, err := f.Await(p.Context()); err != nil {
		p.Errorf("Await of a settled future: %v", err)
	}
	p.steps(c, 1)
}

func futuresRefused(p *play) {
	var rec recorder
	c := p.client(rec.option())
	p.reset(c)
	p.step(c, "hi")
	sent := len(rec.all())
	for name, call := range map[string]func() error{
		"Await": func() error { _, err := c.Async().Step(Action{"no"}).Await(p.Context()); return err },
		"Start": func() error {
			_, err := c.Async().Step(Action{"no"}).Start(p.Context()).Await(p.Context())
			return err
		},
		"Reset": func() error { _, err := c.Async().Reset().Await(p.Context()); return err },
		"State": func() error { _, err := c.Async().State().Await(p.Context()); return err },
	} {
		p.refused(name, call(), openenv.ExecBlocking, openenv.ExecAsync, false)
	}
	if got := len(rec.all()); got != sent {
		p.Errorf("%d frames were sent by refused futures", got-sent)
	}
	p.steps(c, 1)
	// The way out that the error names.
	child, err := c.NewSession(p.Context())
	if err != nil {
		p.Fatalf("NewSession: %v", err)
	}
	if _, err := child.Async().Reset().Await(p.Context()); err != nil {
		p.Errorf("future of a child: %v", err)
	}
}

func pendingRefused(p *play) {
	c := p.client()
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	f := c.Async().Step(Action{"sleep:0.3"}).Start(p.Context())
	_, err := c.Step(p.Context(), Action{"no"})
	p.refused("Step", err, openenv.ExecAsync, openenv.ExecBlocking, true)
	_, err = f.Get(p.Context())
	p.refused("Get", err, openenv.ExecAsync, openenv.ExecBlocking, true)
	if _, err := f.Await(p.Context()); err != nil {
		p.Fatalf("Await(Step): %v", err)
	}
	p.steps(c, 1)
}

// shouter is a client with a verb of its own, as a program would write it.
type shouter struct{ *Client }

func (s shouter) Twice(ctx context.Context, text string) (string, error) {
	first, err := s.Step(ctx, Action{text})
	if err != nil {
		return "", err
	}
	second, err := s.Step(ctx, Action{text + "!"})
	return first.Observation.Echoed + second.Observation.Echoed, err
}

func (s shouter) TwiceAsync(text string) *openenv.Future[string] {
	return openenv.Defer(s, func(ctx context.Context) (string, error) { return s.Twice(ctx, text) })
}

// The two steps of each verb stay together, however many run at once.
func deferred(p *play) {
	s := shouter{p.client()}
	if _, err := s.Async().Reset().Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	fs := make([]*openenv.Future[string], 8)
	for i := range fs {
		fs[i] = s.TwiceAsync(strconv.Itoa(i))
	}
	texts, err := openenv.AwaitAll(p.Context(), fs...)
	if err != nil {
		p.Fatalf("AwaitAll: %v", err)
	}
	for i, text := range texts {
		if want := fmt.Sprintf("%d%d!", i, i); text != want {
			p.Errorf("verb %d = %q, want %q", i, text, want)
		}
	}
	text, err := s.Twice(p.Context(), "x")
	if err != nil || text != "xx!" {
		p.Errorf("the blocking face = %q, %v", text, err)
	}
	p.steps(s.Client, 18)
}
