package load

import (
	"context"
	"os"
	"sync"
	"time"
)

// Usage is what one process used of this machine during a batch.
type Usage struct {
	PID int `json:"pid"`
	// CPU is the processor time spent, in seconds.
	CPU float64 `json:"cpu_seconds"`
	// Memory is resident memory in bytes: before the batch, at its highest, and at the end
	// of Plan.Hold, with all sessions open (0 without one). The last is after a garbage
	// collection in this process, and as it happens to be in the server's.
	Before int64 `json:"memory_before"`
	Peak   int64 `json:"memory_peak"`
	Held   int64 `json:"memory_held"`
	// PerSession is what Held, or else Peak, has above Before, for each session that was
	// open at the time, in bytes.
	PerSession int64 `json:"memory_per_session"`
}

// CPU is the processor time that a process of this machine has used so far, 0 when it
// cannot be seen.
func CPU(pid int) time.Duration { return cpuOf(pid) }

// Sample is the memory of both processes at a time while sessions are held.
type Sample struct {
	At     float64 `json:"at_seconds"` // since all were open
	Open   int     `json:"open"`
	Client int64   `json:"client_memory"`
	Server int64   `json:"server_memory"` // 0 when it is not known
}

// sampleEvery is often enough to see a peak, and costs next to nothing.
const sampleEvery = 100 * time.Millisecond

// watched is one process under observation. The zero pid is nobody.
type watched struct {
	pid    int
	cpu    time.Duration
	before int64
	peak   int64
	held   int64
}

// meter watches this process and the server's.
type meter struct {
	client, server watched
	stop           context.CancelFunc
	done           sync.WaitGroup
}

func startMeter(ctx context.Context, server int) *meter {
	m := &meter{client: watched{pid: os.Getpid()}}
	if server != os.Getpid() { // an embedded one is this process
		m.server.pid = server
	}
	for _, w := range m.both() {
		w.cpu, w.before = cpuOf(w.pid), memoryOf(w.pid)
	}
	ctx, m.stop = context.WithCancel(ctx)
	m.done.Go(func() { m.sample(ctx) })
	return m
}

func (m *meter) both() []*watched { return []*watched{&m.client, &m.server} }

func (m *meter) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		for _, w := range m.both() {
			w.peak = max(w.peak, memoryOf(w.pid))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// end returns the use of both, nil for one that is not known. peak is how many sessions
// were open at once.
func (m *meter) end(peak, held int) (client, server *Usage) {
	m.stop()
	m.done.Wait()
	return m.client.usage(peak, held), m.server.usage(peak, held)
}

func (w *watched) usage(peak, held int) *Usage {
	if w.before == 0 {
		return nil
	}
	u := &Usage{PID: w.pid, CPU: (cpuOf(w.pid) - w.cpu).Seconds(), Before: w.before, Peak: w.peak, Held: w.held}
	switch {
	case held > 0 && w.held > 0:
		u.PerSession = (w.held - w.before) / int64(held)
	case peak > 0:
		u.PerSession = (w.peak - w.before) / int64(peak)
	}
	return u
}
