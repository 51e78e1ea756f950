// Package leak finds goroutines and file descriptors that a test leaves behind.
//
// A test calls [Check] before anything else:
//
//	func TestDial(t *testing.T) {
//		leak.Check(t)
//		…
//	}
//
// A package whose tests should all be clean adds:
//
//	func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
//
// What exists when the baseline is taken is never reported, so both can be
// used together. Goroutines of the runtime and of package testing are ignored.
// Descriptors are compared on Linux only.
package leak

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// settleTime is how long a goroutine or descriptor may take to go away after
// the test has ended: closing is often finished in the background.
const settleTime = 3 * time.Second

// Check takes the baseline and registers a cleanup that fails t if goroutines
// or descriptors created since then are still there about three seconds after
// the test and its later cleanups have ended. The failure shows the stack of
// each goroutine and the target of each descriptor.
//
// Call it first, so that its cleanup runs last. The process is watched as a
// whole: neither the test nor one beside it may be parallel. Inside a
// testing/synctest bubble the three seconds are bubble time.
func Check(t testing.TB) {
	t.Helper()
	base := take()
	t.Cleanup(func() {
		t.Helper()
		if extra := base.settle(); len(extra) > 0 {
			t.Errorf("test left behind:\n\n%s", strings.Join(extra, "\n\n"))
		}
	})
}

// Main runs the tests of m and returns the exit code for os.Exit. When all
// tests pass but goroutines or descriptors created by them remain, it reports
// these on standard error and returns 1.
func Main(m *testing.M) int {
	base := take()
	code := m.Run()
	if code != 0 {
		// A test that failed may have left anything; its own report comes first.
		return code
	}
	if extra := base.settle(); len(extra) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: the package's tests left behind:\n\n%s\n", strings.Join(extra, "\n\n"))
		return 1
	}
	return 0
}

// snapshot is what the process held at one moment.
type snapshot struct {
	goroutines map[string]bool // by goroutine id
	files      map[string]bool // by number and target
}

func take() snapshot {
	s := snapshot{goroutines: map[string]bool{}, files: map[string]bool{}}
	for _, g := range goroutines() {
		s.goroutines[g.id] = true
	}
	for _, f := range openFiles() {
		s.files[f] = true
	}
	return s
}

// extra describes what the process holds now and did not hold in s.
func (s snapshot) extra() []string {
	var out []string
	for _, g := range goroutines() {
		if !s.goroutines[g.id] && !g.foreign() {
			out = append(out, g.stack)
		}
	}
	for _, f := range openFiles() {
		if !s.files[f] {
			out = append(out, "descriptor "+f)
		}
	}
	return out
}

// settle polls until nothing is left over or settleTime has passed, and
// returns the rest.
func (s snapshot) settle() []string {
	const maxPause = 50 * time.Millisecond
	pause := time.Millisecond
	for deadline := time.Now().Add(settleTime); ; pause = min(2*pause, maxPause) {
		extra := s.extra()
		if len(extra) == 0 || !time.Now().Before(deadline) {
			return extra
		}
		time.Sleep(pause)
	}
}
