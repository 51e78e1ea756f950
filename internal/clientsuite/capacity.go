package clientsuite

import (
	"errors"
	"time"

	"github.com/openenv-go/openenv"
)

var capacityCases = []testCase{
	{name: "a full server refuses", kind: Solo, run: full},
	{name: "a slot is free again when Close returns", kind: Solo, run: freeAfterClose},
	{name: "a slot is free again when Disconnect returns", kind: Solo, run: freeAfterDisconnect},
	{name: "waiting for a slot", kind: Solo, run: waitForSlot},
	{name: "a slot that a cancelled step held comes back", kind: Solo, run: freeAfterCancel},
	{name: "an environment that cannot be made", kind: Failing, run: factoryError},
}

func full(p *play) {
	holder := p.client()
	p.reset(holder)
	for _, tt := range []struct {
		name string
		call func(*Client) error
	}{
		{"Connect", func(c *Client) error { return c.Connect(p.Context()) }},
		{"NewSession", func(c *Client) error { _, err := c.NewSession(p.Context()); return err }},
		{"first Reset", func(c *Client) error { _, err := c.Reset(p.Context()); return err }},
		{"first Step", func(c *Client) error { _, err := c.Step(p.Context(), Action{"hi"}); return err }},
		{"first State", func(c *Client) error { _, err := c.State(p.Context()); return err }},
		{"first future", func(c *Client) error { _, err := c.Async().Reset().Await(p.Context()); return err }},
	} {
		c := p.client()
		for range 2 { // a refusal is not the end of a client
			err := tt.call(c)
			if !errors.Is(err, openenv.ErrCapacity) {
				p.Fatalf("%s: %v (%T), want ErrCapacity", tt.name, err, err)
			}
			if lost := new(openenv.SessionLostError); errors.As(err, &lost) {
				p.Errorf("%s: %v: no session was made, so none is lost", tt.name, err)
			}
			se := p.serverError(tt.name, err, openenv.CodeCapacityReached)
			if se.Details["active_sessions"] != 1.0 || se.Details["max_sessions"] != 1.0 {
				p.Errorf("%s: details %v, want 1 of 1 sessions", tt.name, se.Details)
			}
		}
	}
	if _, err := holder.NewSession(p.Context()); !errors.Is(err, openenv.ErrCapacity) {
		p.Errorf("NewSession of the holder: %v, want ErrCapacity", err)
	}
	p.step(holder, "the holder's episode goes on")
	p.steps(holder, 1)
	p.active(1, 0)

	// What was refused was not lost: the same client gets its session later.
	late := p.client()
	if _, err := late.Reset(p.Context()); !errors.Is(err, openenv.ErrCapacity) {
		p.Fatalf("Reset: %v, want ErrCapacity", err)
	}
	if err := holder.Close(); err != nil {
		p.Errorf("Close: %v", err)
	}
	p.reset(late)
	p.step(late, "hi")
}

func freeAfterClose(p *play) {
	for range 20 {
		c := p.client()
		p.reset(c)
		p.step(c, "hi")
		if err := c.Close(); err != nil {
			p.Fatalf("Close: %v", err)
		}
	}
}

func freeAfterDisconnect(p *play) {
	a, b := p.client(), p.client()
	for range 10 {
		for _, c := range []*Client{a, b} {
			p.reset(c)
			p.step(c, "hi")
			if err := c.Disconnect(p.Context()); err != nil {
				p.Fatalf("Disconnect: %v", err)
			}
		}
	}
}

func waitForSlot(p *play) {
	holder := p.client()
	p.reset(holder)
	waiting := p.client(openenv.WithConnectRetry(openenv.Retry{Attempts: 50, Base: 20 * time.Millisecond, Max: 100 * time.Millisecond}))
	timer := time.AfterFunc(300*time.Millisecond, func() {
		if err := holder.Close(); err != nil {
			p.Errorf("Close: %v", err)
		}
	})
	defer timer.Stop()
	p.reset(waiting)
	p.step(waiting, "hi")
}

// The server notices the end of a session when its environment does, so the slot may
// take as long as the step.
func freeAfterCancel(p *play) {
	c := p.client(openenv.WithConnectRetry(openenv.Retry{Attempts: 50, Base: 50 * time.Millisecond, Max: 100 * time.Millisecond}))
	p.reset(c)
	ctx, cancel := p.soon()
	defer cancel()
	if _, err := c.Step(ctx, Action{"sleep:0.5"}); !errors.Is(err, ctx.Err()) {
		p.Fatalf("Step: %v, want the end of its ctx", err)
	}
	p.reset(c)
	p.step(c, "hi")
	p.steps(c, 1)
}

func factoryError(p *play) {
	for name, call := range map[string]func(*Client) error{
		"Connect":     func(c *Client) error { return c.Connect(p.Context()) },
		"NewSession":  func(c *Client) error { _, err := c.NewSession(p.Context()); return err },
		"first Reset": func(c *Client) error { _, err := c.Reset(p.Context()); return err },
	} {
		se := p.serverError(name, call(p.client()), openenv.CodeFactory)
		if factory, _ := se.Details["factory_name"].(string); factory == "" {
			p.Errorf("%s: details %v do not name the factory", name, se.Details)
		}
	}
	p.active(0, time.Second)
}
