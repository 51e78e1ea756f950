//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/process"
	"github.com/openenv-go/openenv/provider/providertest"
)

// child makes a provider whose command is this test binary, in the given role of
// child_test.go. mark is in the environment of all processes that come of it.
func child(t *testing.T, role string, opts ...process.Option) *process.Provider {
	t.Helper()
	opts = append([]process.Option{
		process.WithEnv(map[string]string{roleVariable: role, markVariable: t.Name()}),
		process.WithGrace(3 * time.Second),
		process.WithReadyTimeout(30 * time.Second),
	}, opts...)
	return process.New([]string{os.Args[0], "-test.run=^$"}, opts...)
}

// noChildren fails the test if a process that came of it is left at its end.
func noChildren(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, left := range children(t.Name()) {
			t.Errorf("left behind: %s", left)
		}
	})
}

func begin(t *testing.T) (ctx context.Context) {
	t.Helper()
	leak.Check(t)
	noChildren(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func stop(t *testing.T, p provider.Provider) {
	t.Helper()
	if err := p.Stop(context.Background()); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func TestProvider(t *testing.T) {
	build := func(role string, opts ...process.Option) func(*testing.T) provider.Provider {
		return func(t *testing.T) provider.Provider { return child(t, role, opts...) }
	}
	providertest.Run(t, providertest.Config{
		New:            build("serve"),
		BadStart:       func(*testing.T) provider.Provider { return process.New([]string{"./no-such-program"}) },
		BadStartSays:   []string{"command", "no-such-program", "does not exist"},
		Dies:           build("die"),
		DiesSays:       []string{"status 3", "cannot open the game"},
		NeverReady:     build("html", process.WithReadyTimeout(3*time.Second)),
		NeverReadySays: []string{"serving pages", "is not the health"},
		StopFails:      func(t *testing.T) provider.Provider { return &failsOnce{Provider: child(t, "serve")} },
		Parallel:       50,
		Leftovers:      func(t *testing.T) []string { return children(t.Name()) },
	})
}

// failsOnce stands for a system that refuses the first Stop.
type failsOnce struct {
	provider.Provider
	failed bool
}

func (f *failsOnce) Stop(ctx context.Context) error {
	if !f.failed {
		f.failed = true
		return errors.New("not now")
	}
	return f.Provider.Stop(ctx)
}

// Report 69: a command that dies right after its start is reported at once, with its
// exit code and what it wrote.
func TestDeathAfterStartIsReportedAtOnce(t *testing.T) {
	ctx := begin(t)
	p := child(t, "die")
	defer stop(t, p)
	if _, err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	err := p.WaitReady(ctx)
	noticed := time.Now()
	died, ok := errors.AsType[*provider.ExitError](err)
	if !ok {
		t.Fatalf("got %v, want an ExitError", err)
	}
	if died.Code != 3 || !strings.Contains(died.Tail, "cannot open the game") {
		t.Errorf("code %d, output %q, want code 3 and the reason", died.Code, died.Tail)
	}
	if !strings.Contains(err.Error(), "status 3") || !strings.Contains(err.Error(), "cannot open the game") {
		t.Errorf("the text does not say code and reason: %v", err)
	}
	var end int64
	if _, err := fmt.Sscanf(died.Tail[strings.LastIndexByte(died.Tail, '\n')+1:], "end %d", &end); err != nil {
		t.Fatal(err)
	}
	if passed := noticed.Sub(time.Unix(0, end)); passed > time.Second {
		t.Errorf("reported after %v", passed)
	}
}

// A signal is not an exit code.
func TestDeathByASignal(t *testing.T) {
	ctx := begin(t)
	p := child(t, "silent")
	defer stop(t, p)
	if _, err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { kill(t, p.Pid()) })
	died, ok := errors.AsType[*provider.ExitError](p.WaitReady(ctx))
	if !ok || died.Code != -1 || died.Signal != "killed" {
		t.Errorf("got %+v, want the signal", died)
	}
}

// Report 69: the wait is paced, and goes past proxies. See also netx.PollHealth,
// whose tests count the polls of ten seconds in fake time.
func TestPollsArePacedAndDirect(t *testing.T) {
	ctx := begin(t)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("NO_PROXY", "")
	p := child(t, "unhealthy", process.WithReadyTimeout(4*time.Second))
	_, err := openenv.FromProvider(ctx, echo.Spec, p)
	slow, ok := errors.AsType[*provider.NotReadyError](err)
	if !ok || !strings.Contains(slow.Error(), "HTTP status 503") {
		t.Fatalf("got %v, want what the server said", err)
	}
	// Every poll writes a line. 50 in ten seconds would be 20 in four.
	if n := strings.Count(slow.Tail, "polled"); n < 2 || n >= 20 {
		t.Errorf("%d polls in four seconds", n)
	}
}

// Report 70: a launcher is stopped together with the server that it started.
func TestLauncherIsStoppedWithItsServer(t *testing.T) {
	for _, role := range []string{"launcher", "deaf launcher"} {
		t.Run(role, func(t *testing.T) {
			ctx := begin(t)
			p := child(t, role, process.WithGrace(300*time.Millisecond))
			defer stop(t, p)
			env, err := openenv.FromProvider(ctx, echo.Spec, p)
			if err != nil {
				t.Fatal(err)
			}
			address := strings.TrimPrefix(env.BaseURL(), "http://")
			if n := len(children(t.Name())); listable() == nil && n != 2 {
				t.Errorf("%d processes, want the launcher and its server", n)
			}
			if err := env.Close(); err != nil {
				t.Error(err)
			}
			if conn, err := net.Dial("tcp", address); err == nil {
				conn.Close()
				t.Errorf("%s accepts connections after Close", address)
			}
		})
	}
}

// A launcher that dies leaves a server behind, which Stop finds.
func TestServerOfADeadLauncherIsStopped(t *testing.T) {
	ctx := begin(t)
	p := child(t, "launcher")
	defer stop(t, p)
	env, err := openenv.FromProvider(ctx, echo.Spec, p)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, p.Pid())
	if _, err := env.Reset(ctx); err != nil {
		t.Errorf("the server ended with its launcher: %v", err)
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
}

// Report 71: what the command writes is read, however much it is.
func TestNoisyServerBecomesReady(t *testing.T) {
	ctx := begin(t)
	var logged int
	p := child(t, "noisy", process.WithLog(func(line string) { logged += len(line) + 1 }))
	env, err := openenv.FromProvider(ctx, echo.Spec, p)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Output()); n == 0 || n > 64<<10 {
		t.Errorf("%d bytes of output are kept", n)
	}
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	if logged < 10<<20 {
		t.Errorf("%d bytes were logged, want all", logged)
	}
}

// Report 72: the limit is the caller's, and a server that misses it is not left.
func TestReadyTimeout(t *testing.T) {
	for _, tt := range []struct {
		limit time.Duration
		ready bool
	}{{time.Second, false}, {20 * time.Second, true}} {
		t.Run(tt.limit.String(), func(t *testing.T) {
			ctx := begin(t)
			// A shell says it, which is quick on a busy machine, too.
			p := process.New([]string{"/bin/sh", "-c", `echo loading the game; exec "$0"`, os.Args[0]},
				process.WithEnv(map[string]string{roleVariable: "slow", markVariable: t.Name()}),
				process.WithReadyTimeout(tt.limit))
			env, err := openenv.FromProvider(ctx, echo.Spec, p)
			if tt.ready {
				if err != nil {
					t.Fatal(err)
				}
				if err := env.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			late, ok := errors.AsType[*provider.NotReadyError](err)
			if !ok || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want a NotReadyError of the limit", err)
			}
			if late.Tail != "loading the game" || !strings.Contains(err.Error(), late.Tail) {
				t.Errorf("got %q in %v, want the end of the log", late.Tail, err)
			}
			if p.Pid() != 0 {
				t.Error("the command is not stopped")
			}
		})
	}
}

// Report 72: a page that answers 200 is not an environment.
func TestPageIsNotReady(t *testing.T) {
	ctx := begin(t)
	p := child(t, "html", process.WithReadyTimeout(3*time.Second))
	if _, err := openenv.FromProvider(ctx, echo.Spec, p); err == nil || !strings.Contains(err.Error(), "not the health of an OpenEnv server") {
		t.Errorf("got %v, want the reason", err)
	}
}

// A server that is killed in an episode has taken the episode with it.
func TestKillInAnEpisode(t *testing.T) {
	ctx := begin(t)
	p := child(t, "serve")
	defer stop(t, p)
	env, err := openenv.FromProvider(ctx, echo.Spec, p)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := env.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	kill(t, p.Pid())
	start := time.Now()
	_, err = env.Step(ctx, echo.Action{Message: "hi"})
	if _, ok := errors.AsType[*openenv.SessionLostError](err); !ok {
		t.Errorf("got %v, want SessionLostError", err)
	}
	if passed := time.Since(start); passed > time.Second {
		t.Errorf("noticed after %v", passed)
	}
}

// When the owner is killed, what it started ends, a launcher's server included, and
// the scratch directory goes.
func TestKillOfTheOwner(t *testing.T) {
	for _, role := range []string{"serve", "launcher", "deaf launcher", "silent"} {
		t.Run(role, func(t *testing.T) {
			ctx := begin(t)
			testenv.Require(t, "a list of all processes", listable())
			scratch := filepath.Join(t.TempDir(), "scratch")
			if err := os.Mkdir(scratch, 0o700); err != nil {
				t.Fatal(err)
			}
			owner := child(t, "owner", process.WithEnv(map[string]string{
				ownedVariable: role, scratchVariable: scratch,
			}))
			defer stop(t, owner)
			if _, err := owner.Start(ctx); err != nil {
				t.Fatal(err)
			}
			wait(t, "the owner's child", func() bool { return strings.Contains(owner.Output(), "owned") })
			kill(t, owner.Pid())
			wait(t, "the end of all", func() bool { return len(children(t.Name())) == 0 })
			wait(t, "the end of the scratch directory", func() bool {
				_, err := os.Stat(scratch)
				return errors.Is(err, fs.ErrNotExist)
			})
		})
	}
}

// A server that ignores SIGTERM is killed after the grace, or when the ctx ends.
func TestDeafServerIsKilled(t *testing.T) {
	for name, tt := range map[string]struct{ grace, limit time.Duration }{
		"grace":   {100 * time.Millisecond, time.Minute},
		"context": {time.Minute, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := begin(t)
			p := child(t, "deaf", process.WithGrace(tt.grace))
			defer stop(t, p)
			if _, err := p.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if err := p.WaitReady(ctx); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(ctx, tt.limit)
			defer cancel()
			start := time.Now()
			if err := p.Stop(ctx); err != nil {
				t.Error(err)
			}
			if passed := time.Since(start); passed < 100*time.Millisecond || passed > 5*time.Second {
				t.Errorf("stopped after %v", passed)
			}
		})
	}
}

// The port comes by variable, by another variable, or in the arguments.
func TestPortIsTold(t *testing.T) {
	ctx := begin(t)
	for name, p := range map[string]*process.Provider{
		"variable": child(t, "serve"),
		"other":    child(t, "serve MY_PORT", process.WithPortVariable("MY_PORT")),
		"argument": process.New([]string{os.Args[0], "-test.run=^$", "--", "127.0.0.1:{port}"},
			process.WithEnv(map[string]string{roleVariable: "serve argument", markVariable: t.Name()})),
	} {
		t.Run(name, func(t *testing.T) {
			defer stop(t, p)
			if _, err := p.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if err := p.WaitReady(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// While a server starts, nobody else is given its port.
func TestPortIsHeld(t *testing.T) {
	ctx := begin(t)
	p := child(t, "silent")
	defer stop(t, p)
	endpoint, err := p.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if "http://"+l.Addr().String() == endpoint.URLs[0] {
			t.Error("the port was given away")
		}
		l.Close()
	}
}

// A server that insists on a port of its own alone meets the reservation, and is
// started once more without.
func TestServerWithoutAddressReuse(t *testing.T) {
	ctx := begin(t)
	p := child(t, "exclusive")
	defer stop(t, p)
	if _, err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitReady(ctx); err != nil {
		t.Error(err)
	}
}

// A port that somebody has is not started on, and nobody else's server is used.
func TestPortInUse(t *testing.T) {
	ctx := begin(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := child(t, "serve", process.WithPort(l.Addr().(*net.TCPAddr).Port))
	defer stop(t, p)
	if _, err := p.Start(ctx); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want that the address is in use", err)
	}
}

// The health that counts is the command's, not that of a server which was there.
func TestStrangerIsNotUsed(t *testing.T) {
	ctx := begin(t)
	var p *process.Provider
	stranger := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if p.Pid() != 0 {
			wait(t, "the command's end", func() bool { return !running(p.Pid()) })
			time.Sleep(200 * time.Millisecond) // to be told of it
		}
		_, _ = fmt.Fprint(w, `{"status":"healthy"}`) // the client may have left
	})}
	p = child(t, "die")
	defer stop(t, p)
	endpoint, err := p.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", strings.TrimPrefix(endpoint.URLs[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = stranger.Serve(l) })
	defer served.Wait()
	defer stranger.Close()
	if _, ok := errors.AsType[*provider.ExitError](p.WaitReady(ctx)); !ok {
		t.Error("a stranger's server was taken for the command's")
	}
}

func TestConfigErrors(t *testing.T) {
	leak.Check(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	self := []string{os.Args[0]}
	for _, tt := range []struct {
		name    string
		command []string
		opt     process.Option
		setting string
		says    string
	}{
		{"no command", nil, nil, "command", "no program"},
		{"an empty word", []string{""}, nil, "command", "no program"},
		{"an unknown program", []string{"no-such-program-anywhere"}, nil, "command", "no-such-program-anywhere"},
		{"a missing file", []string{"./server"}, process.WithDir(t.TempDir()), "command", "server"},
		{"a file that is not a program", []string{file}, nil, "command", "permission denied"},
		{"a zero byte", append(self, "a\x00b"), nil, "command", "word 1"},
		{"a missing directory", self, process.WithDir(file + "s"), "WithDir", "no such file"},
		{"a file as directory", self, process.WithDir(file), "WithDir", "not a directory"},
		{"a bad variable", self, process.WithEnv(map[string]string{"A=B": "s3cret"}), "WithEnv", `"A=B"`},
		{"a bad value", self, process.WithEnv(map[string]string{"A": "s3cret\x00"}), "WithEnv", `"A"`},
		{"a bad port variable", self, process.WithPortVariable(""), "WithPortVariable", `""`},
		{"a bad port", self, process.WithPort(65536), "WithPort", "65536"},
		{"a negative limit", self, process.WithReadyTimeout(-1), "WithReadyTimeout", "negative"},
		{"a negative grace", self, process.WithGrace(-1), "WithGrace", "negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := slices.DeleteFunc([]process.Option{tt.opt}, func(o process.Option) bool { return o == nil })
			_, err := process.New(tt.command, opts...).Start(t.Context())
			wrong, ok := errors.AsType[*provider.ConfigError](err)
			if !ok || wrong.Setting != tt.setting || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want a ConfigError of %s that says %q", err, tt.setting, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v shows a value", err)
			}
		})
	}
}

// Errors name the program and none of its arguments, which can hold secrets.
func TestErrorsKeepArguments(t *testing.T) {
	ctx := begin(t)
	p := process.New([]string{os.Args[0], "-test.run=^$", "--token=s3cret"},
		process.WithEnv(map[string]string{roleVariable: "die", markVariable: t.Name(), "TOKEN": "s3cret"}))
	if _, err := openenv.FromProvider(ctx, echo.Spec, p); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want an error without the secret", err)
	}
}

// wait polls for something that another process does.
func wait(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !there(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("waited too long for %s", what)
			return
		}
	}
}
