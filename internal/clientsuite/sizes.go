package clientsuite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/openenv-go/openenv"
)

var sizeCases = []testCase{
	{name: "observations around the usual limits of libraries", run: usualLimits},
	{name: "a large observation", run: largeObservation},
	{name: "a large action", run: largeAction},
	{name: "an observation above the client's limit", run: tooBigForClient},
	{name: "an action above the server's limit", kind: Small, run: tooBigForServer},
	{name: "compression", run: compressed},
}

// big takes a step whose observation has that size and checks every byte.
func (p *play) big(c *Client, size int) {
	p.Helper()
	res, err := c.Step(p.Context(), Action{fmt.Sprint("big:", size)})
	if err != nil {
		p.Fatalf("Step with an observation of %d bytes: %v", size, err)
	}
	got := res.Observation.Echoed
	if len(got) != size || strings.Count(got, "x") != size || res.Observation.Length != size {
		p.Fatalf("observation has %d bytes, length %d, want %d", len(got), res.Observation.Length, size)
	}
}

// Reports: a library's default limits, 32 KiB and 1 MiB, are not ours.
func usualLimits(p *play) {
	c := p.client()
	p.reset(c)
	for _, size := range []int{1, 125, 126, 32<<10 + 1, 64 << 10, 64<<10 + 1, 1<<20 + 1} {
		p.big(c, size)
	}
	p.step(c, "hi")
	p.steps(c, 8)
}

func largeObservation(p *play) {
	c := p.client()
	p.reset(c)
	p.big(c, p.target.Large)
	p.step(c, "hi")
	p.steps(c, 2)
}

func largeAction(p *play) {
	c := p.client()
	p.reset(c)
	message := strings.Repeat("0123456789abcde\n", p.target.LargeAction/16)
	res, err := c.Step(p.Context(), Action{message})
	if err != nil {
		p.Fatalf("Step with an action of %d bytes: %v", len(message), err)
	}
	if res.Observation.Echoed != message {
		p.Errorf("%d bytes came back, not the %d that were sent", len(res.Observation.Echoed), len(message))
	}
	p.step(c, "hi")
	p.steps(c, 2)
}

// Reports: the caller can tell whose limit was hit.
func tooBigForClient(p *play) {
	const limit = 1 << 20
	c := p.client(openenv.WithMaxMessageSize(limit))
	p.reset(c)
	p.big(c, limit/2)
	_, err := c.Step(p.Context(), Action{fmt.Sprint("big:", 2*limit)})
	p.lost("Step", err, true)
	var big *openenv.MessageTooBigError
	if !errors.As(err, &big) || big.Side != openenv.SideLocal || big.Limit != limit {
		p.Errorf("Step: %v, want the local limit of %d bytes", err, limit)
	}
	p.afresh(c)
	unlimited := p.client(openenv.WithMaxMessageSize(0))
	p.reset(unlimited)
	p.big(unlimited, 2*limit)
}

func tooBigForServer(p *play) {
	c := p.client()
	p.reset(c)
	p.step(c, strings.Repeat("x", SmallLimit/2))
	_, err := c.Step(p.Context(), Action{strings.Repeat("x", 3*SmallLimit)})
	p.lost("Step", err, true)
	var big *openenv.MessageTooBigError
	if !errors.As(err, &big) || big.Side != openenv.SideRemote {
		p.Errorf("Step: %v, want the server's limit", err)
	}
	p.afresh(c)
}

// Compression is offered; whether the server takes it is its own affair.
func compressed(p *play) {
	c := p.client(openenv.WithCompression(true))
	p.reset(c)
	p.step(c, "hi")
	p.big(c, 1<<20)
	p.step(c, strings.Repeat("all work and no play ", 10_000))
	p.steps(c, 3)
}
