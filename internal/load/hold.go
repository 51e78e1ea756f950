package load

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"
)

// hold is the time in which all sessions are open together.
type hold struct {
	arriving sync.WaitGroup // sessions that are not there yet
	over     chan struct{}  // closed when sessions may leave
	open     int            // how many were there at the begin
	samples  []Sample
}

const (
	// rest lets the work of connecting end before the memory of idle sessions is read.
	rest = 2 * time.Second
	// samplesOfHold is how many samples a hold gives.
	samplesOfHold = 60
)

// holdAll waits until every session has arrived or failed, and samples memory until
// the time is over.
func (b *batch) holdAll(ctx context.Context) {
	defer close(b.hold.over)
	b.hold.arriving.Wait()
	b.hold.open = int(b.open.Load())
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.plan.Hold)
	defer cancel()
	select {
	case <-time.After(min(rest, b.plan.Hold/2)):
	case <-ctx.Done():
	}
	tick := time.NewTicker(max(b.plan.Hold/samplesOfHold, sampleEvery))
	defer tick.Stop()
	for {
		s := Sample{
			At:   time.Since(begin).Seconds(),
			Open: int(b.open.Load()), Client: memoryOf(b.meter.client.pid), Server: memoryOf(b.meter.server.pid),
		}
		b.hold.samples = append(b.hold.samples, s)
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.meter.server.held = s.Server
			// This process can be asked for what its sessions need; the samples are with what
			// the collector has not got to.
			debug.FreeOSMemory()
			b.meter.client.held = memoryOf(b.meter.client.pid)
			return
		}
	}
}

// stay keeps a session open until the hold is over, stepping now and then. Sessions
// begin at different times within an interval, so that their steps are spread over it.
func (b *batch) stay(ctx context.Context, env *client) error {
	var due <-chan time.Time
	if b.plan.Every > 0 {
		first := time.NewTimer(rand.N(b.plan.Every))
		defer first.Stop()
		due = first.C
	}
	for {
		select {
		case <-b.hold.over:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-due:
		}
		if err := b.stepOnce(ctx, env); err != nil {
			return err
		}
		due = time.After(b.plan.Every)
	}
}
