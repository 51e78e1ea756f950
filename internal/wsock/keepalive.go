package wsock

import (
	"fmt"
	"sync"
	"time"
)

// keepalive pings on a timer and ends the connection when nothing at all arrives
// after a ping. It is a timer and not a goroutine: an idle connection costs no
// second stack.
type keepalive struct {
	lane     *lane
	interval time.Duration
	timeout  time.Duration
	dead     func(error)

	mu      sync.Mutex
	timer   *time.Timer
	pinged  time.Time // when the ping in question was sent; zero when none is out
	reads   int64     // the lane's, when it was sent
	stopped bool
	running sync.WaitGroup
}

func startKeepalive(l *lane, interval, timeout time.Duration, dead func(error)) *keepalive {
	k := &keepalive{lane: l, interval: interval, timeout: timeout, dead: dead}
	if interval > 0 {
		k.mu.Lock()
		k.arm(interval)
		k.mu.Unlock()
	}
	return k
}

// arm schedules the next tick; the caller holds mu.
func (k *keepalive) arm(d time.Duration) {
	k.running.Add(1)
	if k.timer == nil {
		k.timer = time.AfterFunc(d, k.tick)
		return
	}
	k.timer.Reset(d)
}

func (k *keepalive) tick() {
	defer k.running.Done()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	now := time.Now()
	if !k.pinged.IsZero() && k.timeout > 0 {
		alive := k.lane.reads.Load() != k.reads
		left := k.timeout - now.Sub(k.pinged)
		if !alive && left <= 0 {
			k.stopped = true
			k.dead(fmt.Errorf("%w: nothing received within %v of a ping", ErrKeepalive, k.timeout))
			return
		}
		if !alive {
			k.arm(left)
			return
		}
	}
	if wait := k.interval - now.Sub(k.pinged); !k.pinged.IsZero() && wait > 0 {
		k.pinged = time.Time{}
		k.arm(wait)
		return
	}
	k.pinged, k.reads = now, k.lane.reads.Load()
	k.lane.sendPing()
	if k.timeout > 0 {
		k.arm(min(k.interval, k.timeout))
	} else {
		k.arm(k.interval)
	}
}

// stop ends the pings and waits for a tick in progress.
func (k *keepalive) stop() {
	k.mu.Lock()
	k.stopped = true
	if k.timer != nil && k.timer.Stop() {
		k.running.Done()
	}
	k.mu.Unlock()
	k.running.Wait()
}
