package openenv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
	"github.com/openenv-go/openenv/provider"
)

// bubble runs f where time is free and every goroutine must end.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		f(t)
	})
}

// scripted makes a client of a server that play scripts; both end with the test.
func scripted(t *testing.T, play func(*openenvtest.Peer), opts ...openenv.Option) (*openenv.GenericClient, *openenvtest.Scripted) {
	t.Helper()
	script := openenvtest.Script(t, play)
	srv := openenvtest.Serve(t, script)
	return generic(t, srv.URL(), append([]openenv.Option{srv.Option()}, opts...)...), script
}

func generic(t *testing.T, url string, opts ...openenv.Option) *openenv.GenericClient {
	t.Helper()
	env, err := openenv.New(openenv.Generic, url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil && !errors.Is(err, openenv.ErrCleanupPending) {
			t.Errorf("Close: %v", err)
		}
	})
	return env
}

// answer plays a server that does as it is told until the client leaves. A step's
// observation is its action.
func answer(p *openenvtest.Peer) {
	for reply(p) {
	}
}

// reply answers one frame and reports whether more may come.
func reply(p *openenvtest.Peer) bool {
	f, ok := p.Next()
	if !ok {
		return false
	}
	return respond(p, f)
}

func respond(p *openenvtest.Peer, f openenvtest.Frame) bool {
	switch f.Type {
	case "reset":
		p.Observation(`{"at":"reset"}`)
	case "step":
		if len(f.Data) > 1<<20 {
			f.Data = []byte("{}") // an echo of it would only take time
		}
		p.Observation(string(f.Data))
	case "state":
		p.State(`{"episode_id":"e","step_count":0}`)
	default:
		return false
	}
	return true
}

// record is what a server was sent, over all its sessions.
type record struct {
	mu     sync.Mutex
	frames []string
}

func (r *record) add(f openenvtest.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := f.Type
	if f.Type == "step" {
		text += string(f.Data)
	}
	r.frames = append(r.frames, text)
}

// play is answer with a record. A pause is taken before each answer.
func (r *record) play(pause time.Duration) func(*openenvtest.Peer) {
	return func(p *openenvtest.Peer) {
		for {
			f, ok := p.Next()
			if !ok {
				return
			}
			if f.Type != "close" {
				r.add(f)
				time.Sleep(pause)
			}
			if !respond(p, f) {
				return
			}
		}
	}
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.frames)
}

func (r *record) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.frames)
}

func (r *record) want(t *testing.T, frames ...string) {
	t.Helper()
	if want := fmt.Sprint(frames); r.String() != want {
		t.Errorf("server received %v, want %v", r, want)
	}
}

// do is a step's action with a number.
func do(n int) openenv.Object { return openenv.Object{"n": n} }

func mustReset(t *testing.T, env *openenv.GenericClient) {
	t.Helper()
	if _, err := env.Reset(t.Context()); err != nil {
		t.Fatalf("Reset: %v", err)
	}
}

// as finds an error type.
func as[E error](t *testing.T, what string, err error) E {
	t.Helper()
	found, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("%s: %v (%T), want a %T", what, err, err, found)
	}
	return found
}

// wantAs is as for a test that needs no more than the type.
func wantAs[E error](t *testing.T, what string, err error) {
	t.Helper()
	_ = as[E](t, what, err)
}

func wantIs(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: %v, want %v", what, err, target)
	}
}

// after measures f.
func after(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// within is a ctx that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// fakeProvider is a provider whose every step a test decides and counts. A nil
// function succeeds.
type fakeProvider struct {
	endpoint provider.Endpoint
	start    func(context.Context) error
	ready    func(context.Context) error
	stop     func(context.Context) error

	mu       sync.Mutex
	calls    []string
	overlaps int
	busy     bool
}

func (p *fakeProvider) call(ctx context.Context, name string, f func(context.Context) error) error {
	p.mu.Lock()
	p.calls = append(p.calls, name)
	if p.busy {
		p.overlaps++
	}
	p.busy = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy = false
	}()
	if f == nil {
		return nil
	}
	return f(ctx)
}

func (p *fakeProvider) Start(ctx context.Context) (provider.Endpoint, error) {
	return p.endpoint, p.call(ctx, "start", p.start)
}
func (p *fakeProvider) WaitReady(ctx context.Context) error { return p.call(ctx, "ready", p.ready) }
func (p *fakeProvider) Stop(ctx context.Context) error      { return p.call(ctx, "stop", p.stop) }

func (p *fakeProvider) count(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.calls {
		if c == name {
			n++
		}
	}
	return n
}

func (p *fakeProvider) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := "[" + strings.Join(p.calls, "→") + "]"
	if p.overlaps > 0 {
		log += fmt.Sprintf(" with %d overlaps", p.overlaps)
	}
	return log
}

// logBuffer collects a log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// logger writes to the buffer, debug messages included if wanted.
func (l *logBuffer) logger(debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}
