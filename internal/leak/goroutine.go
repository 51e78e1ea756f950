package leak

import (
	"runtime"
	"strings"
)

// goroutine is one entry of a full stack dump.
type goroutine struct {
	id        string
	createdBy string // the function that holds the go statement; empty for main
	stack     string
}

// goroutines lists all goroutines but the caller's own.
func goroutines() []goroutine {
	var all []goroutine
	// The dump starts with the goroutine that asks for it.
	_, others, _ := strings.Cut(dump(), "\n\n")
	for stack := range strings.SplitSeq(others, "\n\n") {
		if g, ok := parse(stack); ok {
			all = append(all, g)
		}
	}
	return all
}

// dump returns the stacks of all goroutines, complete.
func dump() string {
	for size := 64 << 10; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return string(buf[:n])
		}
	}
}

// parse reads one stack in the form of runtime.Stack:
//
//	goroutine 7 [select]:
//	pkg.function(…)
//		file:line
//	created by pkg.function in goroutine 1
//		file:line
func parse(stack string) (goroutine, bool) {
	rest, ok := strings.CutPrefix(stack, "goroutine ")
	if !ok {
		return goroutine{}, false
	}
	id, _, ok := strings.Cut(rest, " ")
	if !ok {
		return goroutine{}, false
	}
	g := goroutine{id: id, stack: strings.TrimSpace(stack)}
	if _, origin, found := strings.Cut(stack, "\ncreated by "); found {
		origin, _, _ = strings.Cut(origin, "\n")
		g.createdBy, _, _ = strings.Cut(origin, " in goroutine ")
	}
	return g, true
}

// foreign reports whether g belongs to the runtime or to package testing, whose
// goroutines no test can end. The loop of os/signal starts with the first
// signal.Notify and lives as long as the process.
func (g goroutine) foreign() bool {
	return strings.HasPrefix(g.createdBy, "runtime.") ||
		strings.HasPrefix(g.createdBy, "testing.") ||
		strings.HasPrefix(g.createdBy, "os/signal.Notify.")
}
