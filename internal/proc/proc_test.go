//go:build unix

package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// run starts a shell script and has it stopped.
func run(t *testing.T, script string, change ...func(*Config)) *Process {
	t.Helper()
	cfg := Config{Path: shell, Args: []string{"-c", script}}
	for _, c := range change {
		c(&cfg)
	}
	p, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	return p
}

func stop(t *testing.T, p *Process) {
	t.Helper()
	if err := p.Stop(context.Background(), time.Second); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if g := p.group.id; syscall.Kill(-g, 0) == nil && p.group.alive() {
		t.Errorf("group %d is not empty", g)
	}
}

func wait(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !there(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

func TestExit(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		want         Exit
		shown, tail  string
	}{
		{"success", "echo out; echo err >&2", Exit{}, "exit status 0", "out\nerr"},
		{"failure", "echo 'no game' >&2; exit 3", Exit{Code: 3}, "exit status 3", "no game"},
		{"signal", "kill -KILL $$", Exit{Code: -1, Signal: "killed"}, "signal: killed", ""},
		{"a child that holds the pipe", "sleep 60 & echo bye; exit 4", Exit{Code: 4}, "exit status 4", "bye"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			p := run(t, tt.script)
			start := time.Now()
			if got := p.Exit(); got != tt.want || got.String() != tt.shown {
				t.Errorf("got %+v, %v, want %+v, %v", got, got, tt.want, tt.shown)
			}
			if passed := time.Since(start); passed > 2*time.Second {
				t.Errorf("noticed after %v", passed)
			}
			if got := p.Tail(); got != tt.tail {
				t.Errorf("tail %q, want %q", got, tt.tail)
			}
		})
	}
}

func TestStop(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		grace        time.Duration
		signal       string
	}{
		{"asked", "echo up; exec sleep 60", 10 * time.Second, "terminated"},
		{"deaf", "trap '' TERM; echo up; while :; do sleep 1; done", 50 * time.Millisecond, "killed"},
		{"without grace", "trap '' TERM; echo up; while :; do sleep 1; done", 0, "killed"},
		{"stopped", "echo up; kill -STOP $$", 50 * time.Millisecond, "killed"},
		{"children", "sleep 60 & sleep 60 & (sleep 60 & sleep 60) & echo up; exec sleep 60", 10 * time.Second, "terminated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			p := run(t, tt.script)
			wait(t, "the program", func() bool { return p.Tail() == "up" })
			start := time.Now()
			if err := p.Stop(t.Context(), tt.grace); err != nil {
				t.Fatal(err)
			}
			if passed := time.Since(start); passed > 5*time.Second {
				t.Errorf("stopped after %v", passed)
			}
			if got := p.Exit().Signal; got != tt.signal {
				t.Errorf("ended by %q, want %q", got, tt.signal)
			}
			stop(t, p)
		})
	}
}

func TestStopWithEndedContext(t *testing.T) {
	leak.Check(t)
	p := run(t, "trap '' TERM; echo up; while :; do sleep 1; done")
	wait(t, "the program", func() bool { return p.Tail() == "up" })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx, time.Hour); err != nil {
		t.Error(err)
	}
	if got := p.Exit().Signal; got != "killed" {
		t.Errorf("ended by %q, want a kill", got)
	}
}

func TestStopsAtOnce(t *testing.T) {
	leak.Check(t)
	p := run(t, "exec sleep 60")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := p.Stop(context.Background(), 5*time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A descendant that has left the group keeps the pipe open, and nobody waiting.
func TestStopWithAStrayThatHoldsThePipe(t *testing.T) {
	leak.Check(t)
	name := filepath.Join(t.TempDir(), "stray")
	p := run(t, "setsid sh -c 'echo $$ > "+name+".new; mv "+name+".new "+name+"; exec sleep 60' & wait")
	wait(t, "the stray", func() bool {
		_, err := os.Stat(name)
		return err == nil
	})
	start := time.Now()
	stop(t, p)
	if passed := time.Since(start); passed > 5*time.Second {
		t.Errorf("stopped after %v", passed)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	stray, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(stray, syscall.SIGKILL); err != nil {
		t.Errorf("the stray: %v", err)
	}
}

// A function that does not return must not keep Stop for ever, which then says so.
func TestStopWithALogThatHangs(t *testing.T) {
	leak.Check(t)
	hang := make(chan struct{})
	p := run(t, "echo hello; exec sleep 60", func(c *Config) { c.Log = func(string) { <-hang } })
	wait(t, "the program", func() bool { return p.Tail() == "hello" })
	if err := p.Stop(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "log function") {
		t.Errorf("got %v, want the reason", err)
	}
	close(hang)
	stop(t, p)
}

func TestStartFails(t *testing.T) {
	leak.Check(t)
	for _, path := range []string{"/no/such/program", t.TempDir()} {
		if p, err := Start(Config{Path: path}); err == nil {
			stop(t, p)
			t.Errorf("%s was started", path)
		}
	}
	if _, err := Start(Config{Path: shell, Dir: "/no/such/directory"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that the directory does not exist", err)
	}
}

// The group's number is ours until Stop, though its only program has exited.
func TestGroupIsHeld(t *testing.T) {
	_, err := os.Stat(shell)
	testenv.Require(t, shell, err)
	_, err = os.Stat("/proc/self/stat")
	testenv.Require(t, "a list of all processes", err)
	leak.Check(t)
	p := run(t, "true")
	p.Exit()
	pids, ok := members(p.group.id)
	if !ok || len(pids) != 1 || pids[0] != p.group.id || p.group.id == p.Pid() {
		t.Errorf("members %v of %d, want the guard alone", pids, p.group.id)
	}
	id := p.group.id
	stop(t, p)
	if err := syscall.Kill(id, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the guard was not waited for: %v", err)
	}
}

// A guard that somebody has killed takes nothing with it.
func TestWithoutGuard(t *testing.T) {
	leak.Check(t)
	p := run(t, "sleep 60 & exec sleep 60")
	if p.group.guard == nil {
		t.Fatal("there is no guard")
	}
	if err := p.group.guard.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
		t.Error("the program ended with its guard")
	case <-time.After(50 * time.Millisecond):
	}
	stop(t, p)
}

// Where there is no shell the program leads its group.
func TestWithoutShell(t *testing.T) {
	leak.Check(t)
	for _, script := range []string{"sleep 60 & exec sleep 60", "sleep 60 & exit 0", "exit 0"} {
		p := run(t, script, func(c *Config) { c.unguarded = true })
		if p.group.guard != nil || p.group.id != p.Pid() {
			t.Fatalf("group %d of %d", p.group.id, p.Pid())
		}
		stop(t, p)
	}
}

func TestLog(t *testing.T) {
	leak.Check(t)
	var lines []string
	p := run(t, `printf 'a\r\n\nb\377\n'; head -c 150000 /dev/zero | tr '\0' x; printf '\nlast'`,
		func(c *Config) { c.Log = func(line string) { lines = append(lines, line) } })
	p.Exit()
	stop(t, p)
	var sizes []int
	for _, line := range lines {
		sizes = append(sizes, len(line))
	}
	if len(lines) < 6 || lines[0] != "a" || lines[1] != "" || lines[2] != "b\uFFFD" || lines[len(lines)-1] != "last" {
		t.Fatalf("lines of %v bytes", sizes)
	}
	if got := len(strings.Join(lines[3:len(lines)-1], "")); got != 150000 {
		t.Errorf("the long line has %d bytes in pieces of %v", got, sizes)
	}
}

func TestTail(t *testing.T) {
	leak.Check(t)
	p := run(t, `i=0; while [ $i -lt 40000 ]; do echo "line $i"; i=$((i+1)); done`)
	p.Exit()
	tail := p.Tail()
	lines := strings.Split(tail, "\n")
	if len(tail) > tailSize || len(tail) < tailSize-100 {
		t.Errorf("%d bytes are kept", len(tail))
	}
	if first, last := lines[0], lines[len(lines)-1]; last != "line 39999" || !strings.HasPrefix(first, "line ") {
		t.Errorf("from %q to %q, want whole lines to the last", first, last)
	}
}

func TestKeep(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces []string
		want   string
	}{
		{"nothing", nil, ""},
		{"less", []string{"a\n", "b\n"}, "a\nb"},
		{"one long line", []string{strings.Repeat("x", 3*tailSize)}, strings.Repeat("x", tailSize)},
		{"a cut line", []string{strings.Repeat("x", 2*tailSize), "yz\nlast\n"}, "last"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &output{}
			for _, piece := range tt.pieces {
				o.keep([]byte(piece))
			}
			if got := o.tail(); got != tt.want {
				t.Errorf("got %d bytes, want %d", len(got), len(tt.want))
			}
		})
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", time.Millisecond: "1", time.Second: "1", 1500 * time.Millisecond: "2"} {
		if got := seconds(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
