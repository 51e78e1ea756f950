package leak_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
)

// leakEnv makes TestOnPurpose leave a goroutine behind, in a process of its own.
const leakEnv = "OPENENV_TEST_LEAK"

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// recorder stands in for the test that is checked.
type recorder struct {
	testing.TB
	cleanups []func()
	failures []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// run checks body as if it were a whole test, and returns what Check reported.
func run(t *testing.T, body func()) string {
	t.Helper()
	r := &recorder{TB: t}
	leak.Check(r)
	body()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return strings.Join(r.failures, "\n")
}

func forgottenGoroutine(stop <-chan struct{}) { <-stop }

func TestCheckReportsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		report := run(t, func() { go forgottenGoroutine(stop) })
		if !strings.Contains(report, "forgottenGoroutine") || !strings.Contains(report, "created by") {
			t.Errorf("report does not show the goroutine and its origin:\n%s", report)
		}
		if n := strings.Count(report, "goroutine "); n != 2 { // its header and "created by … in goroutine"
			t.Errorf("report shows more than the leaked goroutine:\n%s", report)
		}
	})
}

func TestCheckReportsDescriptor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("descriptors are compared on Linux only")
	}
	synctest.Test(t, func(t *testing.T) {
		var file *os.File
		report := run(t, func() {
			var err error
			if file, err = os.Open(os.DevNull); err != nil {
				t.Fatal(err)
			}
		})
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(report, "descriptor ") || !strings.Contains(report, os.DevNull) {
			t.Errorf("report does not show the descriptor:\n%s", report)
		}
	})
}

func TestCheckPassesCleanTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Within the settle time: the end of a background close.
		if report := run(t, func() { go time.Sleep(2 * time.Second) }); report != "" {
			t.Errorf("a goroutine that ends in time is reported:\n%s", report)
		}
	})
}

func TestCheckIgnoresWhatWasThere(t *testing.T) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { <-stop })
	defer wg.Wait()
	defer close(stop)
	if report := run(t, func() {}); report != "" {
		t.Errorf("a goroutine of the baseline is reported:\n%s", report)
	}
}

// The poller's descriptors and the signal loop appear with their first use and
// stay: neither is the test's.
func TestCheckIgnoresTheRuntime(t *testing.T) {
	report := run(t, func() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt)
		signal.Stop(signals)
		if !t.Run("subtest", func(*testing.T) {}) {
			t.Fatal("subtest failed")
		}
	})
	if report != "" {
		t.Errorf("what the runtime keeps is reported:\n%s", report)
	}
}

// TestOnPurpose is the leaking test of TestMainReports.
func TestOnPurpose(*testing.T) {
	if os.Getenv(leakEnv) == "" {
		return
	}
	go forgottenGoroutine(nil)
}

func TestMainReports(t *testing.T) {
	leak.Check(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOnPurpose$")
	cmd.Env = append(os.Environ(), leakEnv+"=1")
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 {
		t.Fatalf("leaking package: got %v, want exit status 1\n%s", err, out)
	}
	if !strings.Contains(string(out), "forgottenGoroutine") {
		t.Errorf("output does not show the goroutine:\n%s", out)
	}
}
