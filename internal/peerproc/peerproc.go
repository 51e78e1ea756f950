// Package peerproc runs the Python peer of interop/peer as a child process of
// a test.
//
//	peer := peerproc.Start(t, "--env", "echo", "--max-sessions", "64")
//	client, err := openenv.New(echo.Spec, peer.URL())
package peerproc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv/internal/testenv"
)

const (
	// startLimit is generous: the first start on a machine compiles all of the
	// peer's packages.
	startLimit = 60 * time.Second

	// drainLimit bounds the wait for the output of a process that is gone,
	// which a grandchild may hold open.
	drainLimit = 5 * time.Second
)

// Peer is a running server. It is safe for concurrent use.
type Peer struct {
	cmd   *exec.Cmd
	url   string
	stdin io.Closer
	done  chan struct{} // closed when the process has ended and was waited for
	log   tail
}

// Start runs interop/peer/server.py with args and returns once it accepts
// connections. The server runs in a process group of its own, which the test's
// cleanup kills and waits for; it also ends by itself should the test binary
// die without cleaning up. If the test fails, the end of the server's log is
// in the test's output. Without the Python peer the test ends as
// [testenv.Require] decides; a server that does not come up fails it.
func Start(t testing.TB, args ...string) *Peer {
	t.Helper()
	p := &Peer{done: make(chan struct{})}
	script := filepath.Join(testenv.Root(t), "interop", "peer", "server.py")
	p.cmd = exec.Command(testenv.Python(t), append([]string{script, "--exit-with-stdin"}, args...)...)
	p.cmd.Env = environment()
	p.cmd.WaitDelay = drainLimit
	ownGroup(p.cmd)
	port := &portLine{found: make(chan string, 1)}
	p.cmd.Stdout = port
	p.cmd.Stderr = &p.log

	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatalf("start the Python peer: %v", err)
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start the Python peer: %v", err)
	}
	go func() {
		defer close(p.done)
		// How it ended is no news: the cleanup kills it. A death that a test did
		// not ask for shows in the test itself, and in ProcessState below.
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the Python peer, %v, said last:\n%s", p.cmd.ProcessState, p.log.String())
		}
	})

	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case number := <-port.found:
		p.url = "http://127.0.0.1:" + number
	case <-p.done:
		t.Fatalf("start the Python peer: it ended first: %v", p.cmd.ProcessState)
	case <-limit.C:
		t.Fatalf("start the Python peer: not ready after %v", startLimit)
	}
	return p
}

// URL returns the base URL, http://127.0.0.1:port.
func (p *Peer) URL() string { return p.url }

// Pid returns the id of the server's process, which is that of its group too.
func (p *Peer) Pid() int { return p.cmd.Process.Pid }

// Kill ends the server and its group at once, as kill -9 does, and returns when
// it is gone. Calling it again, or on a server that has ended, has no effect.
func (p *Peer) Kill() {
	select {
	case <-p.done:
		// Not again: the id may be another process's already.
	default:
		killGroup(p.cmd)
	}
	<-p.done
	_ = p.stdin.Close() // closed by Wait already; an error says just that
}

// environment is the caller's without what would change the server.
func environment() []string {
	env := []string{"PYTHONDONTWRITEBYTECODE=1"} // no files beside the script
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "OPENENV_") && !strings.HasPrefix(entry, "ENABLE_WEB_INTERFACE=") {
			env = append(env, entry)
		}
	}
	return env
}

// String names the peer in a test's messages.
func (p *Peer) String() string { return fmt.Sprintf("Python peer %d at %s", p.Pid(), p.url) }
