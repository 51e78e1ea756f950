package openenv_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// eventually collects garbage until ok, for at most some seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10s", what)
		}
		runtime.GC()
	}
}

// A client that is forgotten without Close: its socket is closed, its provider
// stopped, and a warning logged. This is about the garbage collector: real time.
func TestForgottenClient(t *testing.T) {
	leak.Check(t)
	gone := make(chan struct{}, 10)
	srv := openenvtest.ServeLoopback(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
		answer(p)
		gone <- struct{}{}
	}))
	var log logBuffer
	func() {
		env, err := openenv.New(openenv.Generic, srv.URL(), openenv.WithLogger(log.logger(false)))
		if err != nil {
			t.Fatal(err)
		}
		mustReset(t, env)
		if _, err := env.NewSession(t.Context()); err != nil {
			t.Fatal(err)
		}
	}()
	eventually(t, "both sockets close", func() bool { return len(gone) == 2 })
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "without Close") {
		t.Errorf("log:\n%s", log.String())
	}
}

// A forgotten child is closed by itself; its parent goes on.
func TestForgottenChild(t *testing.T) {
	leak.Check(t)
	gone := make(chan struct{}, 10)
	srv := openenvtest.ServeLoopback(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
		answer(p)
		gone <- struct{}{}
	}))
	env := generic(t, srv.URL())
	if _, err := env.NewSession(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child's socket closes", func() bool { return len(gone) == 1 })
	mustReset(t, env)
}

// A parent lives as long as a child of it is in use, and a client as long as somebody
// waits for it, or holds a future of it.
func TestNotForgotten(t *testing.T) {
	leak.Check(t)
	release := make(chan struct{})
	var log logBuffer
	script := openenvtest.Script(t, func(p *openenvtest.Peer) {
		if p.Number() > 1 { // all but the child
			f, _ := p.Next()
			<-release
			respond(p, f)
		}
		answer(p)
	})
	srv := openenvtest.ServeLoopback(t, slowHealth{script, release})
	opts := []openenv.Option{openenv.WithLogger(log.logger(false)), openenv.WithMessageTimeout(0)}
	newClient := func() *openenv.GenericClient {
		env, err := openenv.New(openenv.Generic, srv.URL(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	child := func() *openenv.GenericClient {
		child, err := newClient().NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return child
	}()
	future := newClient().Async().State().Start(t.Context())
	outcomes := make(chan error, 3)
	go func() { _, err := newClient().Health(t.Context()); outcomes <- err }()
	go func() { _, err := future.Await(t.Context()); outcomes <- err }()
	go func() { outcomes <- newClient().Connect(t.Context()) }()
	for range 20 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("log:\n%s", log.String())
	}
	mustReset(t, child)
	close(release)
	for range 3 {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
	if err := child.Close(); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(child)
	eventually(t, "those with a socket are forgotten", func() bool { return strings.Count(log.String(), "WARN") >= 2 })
}

// In a bubble nothing of the collector's may touch the client: the runtime would end
// the process. A session dropped there is closed with its parent.
func TestForgottenInABubble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, answer)
		for range 5 {
			if _, err := env.NewSession(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			runtime.GC()
		}
		mustReset(t, env)
	})
}

// slowHealth answers GET /health when it may.
type slowHealth struct {
	*openenvtest.Scripted
	release <-chan struct{}
}

func (s slowHealth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		<-s.release
		_, _ = io.WriteString(w, `{"status":"healthy"}`)
		return
	}
	s.Scripted.ServeHTTP(w, r)
}
