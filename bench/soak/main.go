// Command soak uses and abuses a server for a while and fails unless it ends where it
// began: no session, the same goroutines, the same memory.
//
//	go run ./bench/soak -for 30s
//
// Clients connect, step and leave in every way there is: with a close frame, with a
// close handshake, without a word, in the middle of a step, of a frame or of a request,
// or by falling silent with the socket open. Environments fail, panic and overstay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
)

func main() {
	d := flag.Duration("for", 10*time.Minute, "how long")
	workers := flag.Int("workers", 64, "clients at a time")
	flag.Parse()
	if err := soak(*d, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// Limits of what may be left. Memory is that after a garbage collection; what remains
// of pools and maps that have grown is a fraction of this.
const (
	memorySlack = 4 << 20
	settleTime  = 20 * time.Second
)

func soak(d time.Duration, workers int) error {
	var lab lab
	srv, err := envserver.New(spec, lab.build,
		envserver.WithMaxSessions(3*workers/4), // some are refused
		envserver.WithKeepalive(500*time.Millisecond, 500*time.Millisecond),
		envserver.WithIdleTimeout(2*time.Second),
		envserver.WithHeaderTimeout(500*time.Millisecond),
		envserver.WithStepTimeout(300*time.Millisecond),
		envserver.WithWriteTimeout(time.Second),
		envserver.WithMaxMessageSize(1<<20))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	l, err := envserver.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, l) }()

	run := func(d time.Duration) *tally {
		t := new(tally)
		work(d, workers, &visitor{address: l.Addr().String(), tally: t})
		return t
	}
	run(min(d/4, 5*time.Second)) // what happens once, and how far pools grow
	before, err := rest(srv, measure{})
	if err != nil {
		return err
	}
	fmt.Printf("baseline: %v\n", before)
	t := run(d)
	after, err := rest(srv, before)
	fmt.Printf("%v\nend: %v\n", t, after)
	if err != nil {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) // to a terminal, or nowhere
		return err
	}
	stop()
	if err := <-served; err != nil {
		return err
	}
	return lab.check()
}

// measure is what a process holds when nothing goes on.
type measure struct {
	sessions   int
	goroutines int
	memory     int64
}

func (m measure) String() string {
	return fmt.Sprintf("%d sessions, %d goroutines, %d KiB", m.sessions, m.goroutines, m.memory>>10)
}

// rest waits until the server holds no more than before, or any steady amount when
// before is empty.
func rest(srv *envserver.Server, before measure) (measure, error) {
	var m measure
	for deadline := time.Now().Add(settleTime); ; time.Sleep(100 * time.Millisecond) {
		http.DefaultClient.CloseIdleConnections()
		runtime.GC()
		runtime.GC() // pools keep their contents over one
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		last := m
		m = measure{srv.ActiveSessions(), runtime.NumGoroutine(), int64(stats.HeapAlloc + stats.StackInuse)}
		steady := m.sessions == 0 && m.goroutines == last.goroutines
		if before.goroutines > 0 {
			steady = m.sessions == 0 && m.goroutines <= before.goroutines && m.memory <= before.memory+memorySlack
		}
		if steady {
			return m, nil
		}
		if time.Now().After(deadline) {
			return m, fmt.Errorf("left with %v, want %v", m, before)
		}
	}
}

// work lets clients visit until the time is over.
func work(d time.Duration, workers int, v *visitor) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				visits[rand.IntN(len(visits))](ctx, v)
			}
		})
	}
	wg.Wait()
}

// tally counts what clients met.
type tally struct{ sessions, refused, steps, dropped, requests atomic.Int64 }

func (t *tally) String() string {
	return fmt.Sprintf("%d sessions, %d refused, %d replies, %d dropped sockets, %d requests",
		t.sessions.Load(), t.refused.Load(), t.steps.Load(), t.dropped.Load(), t.requests.Load())
}

type (
	action struct {
		Do string `json:"do"`
		Ms int    `json:"ms,omitempty"`
	}
	observation struct {
		Did string `json:"did"`
	}
	result = openenv.StepResult[observation]
)

var spec = openenv.Spec[action, observation, openenv.State]{Name: "soak"}

// lab counts its environments.
type lab struct{ built, closed, twice atomic.Int64 }

type env struct {
	lab    *lab
	closed atomic.Bool
}

func (l *lab) build(context.Context) (*env, error) {
	if rand.IntN(50) == 0 {
		return nil, errors.New("not this time")
	}
	l.built.Add(1)
	return &env{lab: l}, nil
}

func (l *lab) check() error {
	if l.built.Load() != l.closed.Load() || l.twice.Load() != 0 {
		return fmt.Errorf("%d environments were built, %d closed, %d of them twice", l.built.Load(), l.closed.Load(), l.twice.Load())
	}
	return nil
}

func (*env) ConcurrentSessions() bool { return true }

func (*env) Reset(context.Context, envserver.ResetParams) (result, error) { return result{}, nil }

func (*env) Step(ctx context.Context, a action) (result, error) {
	d := time.Duration(a.Ms) * time.Millisecond
	switch a.Do {
	case "sleep":
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return result{}, context.Cause(ctx)
		}
	case "overstay":
		time.Sleep(d)
	case "panic":
		panic("as told")
	case "fail":
		return result{}, errors.New("as told")
	}
	return result{Observation: observation{a.Do}}, nil
}

func (*env) State(context.Context) (openenv.State, error) { return openenv.State{}, nil }

func (e *env) Close() error {
	e.lab.closed.Add(1)
	if e.closed.Swap(true) {
		e.lab.twice.Add(1)
		return errors.New("closed before")
	}
	return nil
}

// visitor makes connections to the server.
type visitor struct {
	address string
	tally   *tally
}

func (v *visitor) dial() (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", v.address, 5*time.Second)
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // no visit waits for longer
	}
	return conn, err
}

// post makes one request and reads its answer.
func (v *visitor) post(path, body string) []byte {
	v.tally.requests.Add(1)
	resp, err := http.Post("http://"+v.address+path, "application/json", strings.NewReader(body))
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body) // what is missing is missing
	return answer
}
