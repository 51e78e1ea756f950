package wsock

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// guardAfter is how long a Write may take before its ctx is watched. Nearly every
// message is with the kernel sooner.
const guardAfter = 2 * time.Millisecond

// guard breaks a Write that does not get through: when its ctx ends, or after the
// write timeout. A message that gets through at once costs it two looks at the clock:
// the timer is not stopped between quick writes, since setting one that is due soon
// wakes the thread that waits for the network.
type guard struct {
	conn *Conn

	mu      sync.Mutex
	timer   *time.Timer
	due     time.Time       // when timer fires; zero when it is not running
	ctx     context.Context // of the Write in progress, nil when none
	began   time.Time
	unwatch func() bool
	watched bool
}

func (g *guard) begin(ctx context.Context) {
	if ctx.Done() == nil && g.conn.opts.WriteTimeout <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx, g.began, g.watched = ctx, time.Now(), false
	if g.due.IsZero() || g.due.Sub(g.began) > guardAfter {
		g.arm(guardAfter)
	}
}

// arm sets the timer; the caller holds mu.
func (g *guard) arm(d time.Duration) {
	g.due = time.Now().Add(d)
	if g.timer == nil {
		g.timer = time.AfterFunc(d, g.fire)
		return
	}
	g.timer.Reset(d)
}

func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil {
		return
	}
	g.ctx = nil
	if g.unwatch != nil {
		g.unwatch()
		g.unwatch = nil
	}
}

// fire first starts to watch the ctx, and the second time is the write timeout. The
// timer may be that of an earlier Write: what counts is the time that the one in
// progress has taken.
func (g *guard) fire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = time.Time{}
	if g.ctx == nil {
		return
	}
	taken, limit := time.Since(g.began), g.conn.opts.WriteTimeout
	if taken < guardAfter {
		g.arm(guardAfter - taken)
		return
	}
	if !g.watched {
		g.watched = true
		ctx := g.ctx
		g.unwatch = context.AfterFunc(ctx, func() {
			g.conn.giveUp(&CancelledError{Cause: context.Cause(ctx)})
			g.conn.lane.abort()
		})
	}
	switch {
	case limit <= 0:
	case taken < limit:
		g.arm(limit - taken)
	default:
		g.conn.giveUp(fmt.Errorf("%w of %v", ErrWriteTimeout, limit))
		g.conn.lane.abort()
	}
}
