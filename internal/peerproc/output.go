package peerproc

import (
	"bytes"
	"strings"
	"sync"
)

// portLine is the standard output of the server: it hands on the port of the
// line LISTENING <port>, once, and drops the rest.
type portLine struct {
	found   chan string // has room for one
	pending []byte
	seen    bool
}

func (w *portLine) Write(p []byte) (int, error) {
	if w.seen {
		return len(p), nil
	}
	w.pending = append(w.pending, p...)
	for {
		line, rest, complete := bytes.Cut(w.pending, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		w.pending = rest
		if port, ok := strings.CutPrefix(string(line), "LISTENING "); ok {
			w.found <- strings.TrimSpace(port)
			w.seen, w.pending = true, nil
			return len(p), nil
		}
	}
}

// tailSize bounds what is kept of the log: enough for a few Python tracebacks.
const tailSize = 32 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p...)
	if over := len(w.buf) - tailSize; over > 0 {
		w.buf = append(w.buf[:0], w.buf[over:]...)
		w.cut = true
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return "…" + string(w.buf)
	}
	return string(w.buf)
}
