package clientsuite

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/openenv-go/openenv"
)

var manyCases = []testCase{
	{name: "64 sessions at once", run: manySessions},
	{name: "many goroutines on one client", run: manyGoroutines},
	{name: "many first calls share one dial", run: oneDial},
	{name: "made, connected, used and closed by different goroutines", run: wanderingClient},
	{name: "health is quick while environments are busy", needs: realTime, run: quickHealth},
	{name: "a hundred sessions one after the other", run: manyCycles},
}

// manySessions opens the sessions side by side and runs an episode of a length of
// its own in each.
func manySessions(p *play) {
	parent := p.client()
	var fs []*openenv.Future[*Client]
	for range Sessions {
		fs = append(fs, parent.Async().NewSession())
	}
	children, err := openenv.AwaitAll(p.Context(), fs...)
	if err != nil {
		p.Fatalf("AwaitAll(NewSession): %v", err)
	}
	p.active(Sessions, 0)
	for i, child := range children {
		child.Async().Reset(openenv.EpisodeID(fmt.Sprint("e-", i))).Start(p.Context())
	}
	var steps []*openenv.Future[openenv.StepResult[Observation]]
	for round := range 5 {
		for i, child := range children {
			if round <= i%5 {
				steps = append(steps, child.Async().Step(Action{strconv.Itoa(i)}).Start(p.Context()))
			}
		}
	}
	if _, err := openenv.AwaitAll(p.Context(), steps...); err != nil {
		p.Fatalf("AwaitAll(Step): %v", err)
	}
	var states []*openenv.Future[openenv.State]
	for _, child := range children {
		states = append(states, child.Async().State())
	}
	all, err := openenv.AwaitAll(p.Context(), states...)
	if err != nil {
		p.Fatalf("AwaitAll(State): %v", err)
	}
	for i, got := range all {
		if want := (openenv.State{EpisodeID: fmt.Sprint("e-", i), StepCount: i%5 + 1}); got != want {
			p.Errorf("session %d has the state %+v, want %+v", i, got, want)
		}
	}
	if err := parent.Close(); err != nil {
		p.Errorf("Close: %v", err)
	}
	p.active(0, time.Second)
}

func manyGoroutines(p *play) {
	const goroutines, each = 32, 10
	c := p.client()
	p.reset(c)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				message := fmt.Sprint(g, "/", i)
				if res, err := c.Step(p.Context(), Action{message}); err != nil || res.Observation.Echoed != message {
					p.Errorf("Step(%q) = %+v, %v", message, res, err)
				}
				if _, err := c.State(p.Context()); err != nil {
					p.Errorf("State: %v", err)
				}
			}
		})
	}
	wg.Wait()
	p.steps(c, goroutines*each)
}

func oneDial(p *play) {
	c := p.client()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := c.Step(p.Context(), Action{"hi"}); err != nil {
				p.Errorf("Step: %v", err)
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			if err := c.Connect(p.Context()); err != nil {
				p.Errorf("Connect: %v", err)
			}
		})
	}
	wg.Wait()
	p.active(1, 0)
	p.steps(c, 16)
}

// Reports: a client is not tied to the goroutine or the context of its first call.
func wanderingClient(p *play) {
	elsewhere := func(f func()) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f()
		}()
		<-ended
	}
	var c *Client
	elsewhere(func() {
		var err error
		if c, err = openenv.New(Spec, p.server.URL, p.options(nil)...); err != nil {
			p.Errorf("New: %v", err)
		}
	})
	if c == nil {
		return
	}
	elsewhere(func() {
		if err := c.Connect(p.Context()); err != nil {
			p.Errorf("Connect: %v", err)
		}
		if _, err := c.Reset(p.Context()); err != nil {
			p.Errorf("Reset: %v", err)
		}
	})
	baton := make(chan int)
	step := func() {
		for n := range baton {
			if _, err := c.Step(p.Context(), Action{strconv.Itoa(n)}); err != nil {
				p.Errorf("step %d: %v", n, err)
			}
			if n == 100 {
				close(baton)
				return
			}
			baton <- n + 1
		}
	}
	var wg sync.WaitGroup
	wg.Go(step)
	wg.Go(step)
	baton <- 1
	wg.Wait()
	p.steps(c, 100)
	elsewhere(func() {
		if err := c.Close(); err != nil {
			p.Errorf("Close: %v", err)
		}
	})
}

// Reports: health stays quick while environments are busy.
func quickHealth(p *play) {
	parent := p.client()
	var busy []*openenv.Future[openenv.StepResult[Observation]]
	for range 8 {
		c, err := parent.NewSession(p.Context())
		if err != nil {
			p.Fatalf("NewSession: %v", err)
		}
		busy = append(busy, c.Async().Step(Action{"sleep:1"}).Start(p.Context()))
	}
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < 800*time.Millisecond; {
		start := time.Now()
		health, err := parent.Health(p.Context())
		if err != nil || health.Status != "healthy" {
			p.Fatalf("Health = %+v, %v", health, err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	p.Logf("%d health calls while 8 sessions are busy: median %v, p99 %v", len(took), took[len(took)/2], p99)
	if p99 > 100*time.Millisecond {
		p.Errorf("p99 of health is %v, want below 100ms", p99)
	}
	if _, err := openenv.AwaitAll(p.Context(), busy...); err != nil {
		p.Errorf("AwaitAll: %v", err)
	}
}

// What a session leaves behind adds up here, for the leak check to see.
func manyCycles(p *play) {
	parent := p.client()
	for range 100 {
		c, err := parent.NewSession(p.Context())
		if err != nil {
			p.Fatalf("NewSession: %v", err)
		}
		p.reset(c)
		if err := c.Close(); err != nil {
			p.Fatalf("Close: %v", err)
		}
	}
	p.active(0, time.Second)
}
