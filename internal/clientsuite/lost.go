package clientsuite

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/openenv-go/openenv"
)

var lostCases = []testCase{
	{name: "a session that was disconnected", run: disconnected},
	{name: "Disconnect fails the call in progress", run: disconnectMidStep},
	{name: "a clean session comes back by itself", run: cleanReconnect},
	{name: "Connect does not bring an episode back", run: connectIsNotReset},
	{name: "a session that was never reset comes back by Connect", run: neverReset},
	{name: "kill -9 of the server in mid-step", kind: Mortal, needs: kill, run: killed},
	{name: "an idle gap", needs: fakeTime, run: idle},
	{name: "Close is final", run: closed},
	{name: "children are closed with their parent", run: family},
	{name: "Use closes in every case", run: use},
}

func disconnected(p *play) {
	c := p.client()
	p.reset(c)
	p.step(c, "hi")
	if err := c.Disconnect(p.Context()); err != nil {
		p.Fatalf("Disconnect: %v", err)
	}
	p.active(0, time.Second)
	p.afresh(c)
}

func disconnectMidStep(p *play) {
	c := p.client()
	p.reset(c)
	disconnected := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() { disconnected <- c.Disconnect(p.Context()) })
	_, err := c.Step(p.Context(), Action{"sleep:1"})
	p.lost("Step", err, true)
	if err := <-disconnected; err != nil {
		p.Errorf("Disconnect: %v", err)
	}
	p.afresh(c)
}

// State changes nothing, so nothing is lost with the session that was only asked.
func cleanReconnect(p *play) {
	c := p.client()
	p.steps(c, 0)
	if err := c.Disconnect(p.Context()); err != nil {
		p.Fatalf("Disconnect: %v", err)
	}
	p.steps(c, 0)
	if err := c.Disconnect(p.Context()); err != nil {
		p.Fatalf("Disconnect: %v", err)
	}
	p.reset(c)
}

func connectIsNotReset(p *play) {
	c := p.client()
	p.reset(c)
	if err := c.Disconnect(p.Context()); err != nil {
		p.Fatalf("Disconnect: %v", err)
	}
	if err := c.Connect(p.Context()); err != nil {
		p.Fatalf("Connect: %v", err)
	}
	p.afresh(c)
}

func neverReset(p *play) {
	c := p.client()
	p.step(c, "without a reset")
	if err := c.Disconnect(p.Context()); err != nil {
		p.Fatalf("Disconnect: %v", err)
	}
	_, err := c.Step(p.Context(), Action{"late"})
	p.lost("Step", err, false)
	if err := c.Connect(p.Context()); err != nil {
		p.Fatalf("Connect: %v", err)
	}
	p.step(c, "a new session")
	p.steps(c, 1)
}

// Reports: when the server dies, pending calls fail fast.
func killed(p *play) {
	const n = 8
	parent := p.client()
	var fs []*openenv.Future[openenv.StepResult[Observation]]
	for range n {
		c, err := parent.NewSession(p.Context())
		if err != nil {
			p.Fatalf("NewSession: %v", err)
		}
		fs = append(fs, c.Async().Reset().Start(p.Context()))
		fs = append(fs, c.Async().Step(Action{"sleep:30"}).Start(p.Context()))
	}
	for i := 0; i < len(fs); i += 2 {
		if _, err := fs[i].Await(p.Context()); err != nil {
			p.Fatalf("Await(Reset): %v", err)
		}
	}
	time.Sleep(100 * time.Millisecond) // for the steps to begin
	for i := 1; i < len(fs); i += 2 {
		if _, err := fs[i].Result(); !errors.Is(err, openenv.ErrPending) {
			p.Fatalf("step of session %d before the kill: %v", i/2, err)
		}
	}
	start := time.Now()
	p.server.Kill()
	for i := 1; i < len(fs); i += 2 {
		_, err := fs[i].Await(p.Context())
		p.lost(fmt.Sprint("Step of session ", i/2), err, true)
	}
	if took := time.Since(start); took > time.Second {
		p.Errorf("the last of %d calls failed %v after the kill, want 1s", n, took)
	}
	c := p.client()
	var refused *openenv.ConnectError
	if _, err := c.Reset(p.Context()); !errors.As(err, &refused) {
		p.Errorf("Reset on a dead server: %v (%T), want a *ConnectError", err, err)
	}
}

// Reports: connections survive while a trainer thinks, because both ends read all
// the time and answer each other's pings.
func idle(p *play) {
	c := p.client()
	p.reset(c, openenv.EpisodeID("idle"))
	for i, gap := range []time.Duration{45 * time.Second, 10 * time.Minute, 24 * time.Hour} {
		time.Sleep(gap)
		p.step(c, "still here")
		if got := p.steps(c, i+1); got != "idle" {
			p.Errorf("episode %q after %v, want the same", got, gap)
		}
	}
}

func closed(p *play) {
	c := p.client()
	p.reset(c)
	for range 2 {
		if err := c.Close(); err != nil {
			p.Errorf("Close: %v", err)
		}
	}
	for name, call := range map[string]func() error{
		"Connect":    func() error { return c.Connect(p.Context()) },
		"Reset":      func() error { _, err := c.Reset(p.Context()); return err },
		"Step":       func() error { _, err := c.Step(p.Context(), Action{"hi"}); return err },
		"State":      func() error { _, err := c.State(p.Context()); return err },
		"NewSession": func() error { _, err := c.NewSession(p.Context()); return err },
		"Disconnect": func() error { return c.Disconnect(p.Context()) },
		"Health":     func() error { _, err := c.Health(p.Context()); return err },
		"future":     func() error { _, err := c.Async().Reset().Await(p.Context()); return err },
	} {
		if err := call(); !errors.Is(err, openenv.ErrClosed) {
			p.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
}

func family(p *play) {
	const n = 20
	parent := p.client()
	p.reset(parent)
	var children []*Client
	for range n {
		child, err := parent.NewSession(p.Context())
		if err != nil {
			p.Fatalf("NewSession: %v", err)
		}
		children = append(children, child)
	}
	grandchild, err := children[0].NewSession(p.Context())
	if err != nil {
		p.Fatalf("NewSession of a child: %v", err)
	}
	children = append(children, grandchild)
	p.active(n+2, 0)
	if err := children[1].Close(); err != nil {
		p.Errorf("Close of a child: %v", err)
	}
	p.step(parent, "the parent lives on")
	p.active(n+1, time.Second)

	running := children[2].Async().Step(Action{"sleep:1"}).Start(p.Context())
	start := time.Now()
	if err := parent.Close(); err != nil {
		p.Errorf("Close: %v", err)
	}
	// The one that is in the middle of a step takes its close timeout; they close
	// side by side.
	if took := time.Since(start); took > 3*time.Second {
		p.Errorf("Close of %d sessions took %v", n+1, took)
	}
	if _, err := running.Await(p.Context()); !errors.Is(err, openenv.ErrClosed) {
		p.Errorf("a child's future after its parent's Close: %v", err)
	}
	var wg sync.WaitGroup
	for i, child := range children {
		wg.Go(func() {
			if _, err := child.Step(p.Context(), Action{"hi"}); !errors.Is(err, openenv.ErrClosed) {
				p.Errorf("Step of child %d after its parent's Close: %v", i, err)
			}
		})
	}
	wg.Wait()
	p.active(0, 2*time.Second)
}

// Reports: sessions do not leak when an episode ends by an error or a panic.
func use(p *play) {
	boom := errors.New("the trainer's own error")
	for _, tt := range []struct {
		name string
		end  func() error
	}{
		{"in order", func() error { return nil }},
		{"by an error", func() error { return boom }},
		{"by a panic", func() error { panic(boom) }},
	} {
		c := p.client()
		err := func() (err error) {
			defer func() {
				if v := recover(); v != nil {
					err, _ = v.(error)
				}
			}()
			return openenv.Use(p.Context(), c, func(c *Client) error {
				p.reset(c)
				return tt.end()
			})
		}()
		if tt.name != "in order" && !errors.Is(err, boom) || tt.name == "in order" && err != nil {
			p.Errorf("Use ended %s: %v", tt.name, err)
		}
		p.active(0, time.Second)
		if err := c.Connect(p.Context()); !errors.Is(err, openenv.ErrClosed) {
			p.Errorf("Connect after a Use that ended %s: %v, want ErrClosed", tt.name, err)
		}
	}
}
