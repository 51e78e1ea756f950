package proc

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	tailSize = 64 << 10 // of the output that is kept
	lineSize = 64 << 10 // of a line that is logged; a longer one is logged in pieces

	// logLimit bounds the wait for the function that logs, when the process stops.
	logLimit = 2 * time.Second
)

// output drains what a program writes, so that it never waits for a reader, and
// keeps the end.
type output struct {
	r    *os.File
	log  func(string)
	done chan struct{} // closed when the pipe has ended

	mu   sync.Mutex
	kept []byte // at most twice tailSize
	lost bool   // something before kept was dropped
}

// drain reads r to its end, on a goroutine that close waits for.
func drain(r *os.File, log func(string)) *output {
	o := &output{r: r, log: log, done: make(chan struct{})}
	go o.read()
	return o
}

func (o *output) read() {
	defer close(o.done)
	buf := make([]byte, 32<<10)
	var line []byte
	for {
		n, err := o.r.Read(buf)
		o.keep(buf[:n])
		if o.log != nil {
			line = o.logLines(append(line, buf[:n]...))
		}
		if err != nil {
			if len(line) > 0 {
				o.log(text(line))
			}
			return
		}
	}
}

// logLines logs the whole lines of b and returns the rest.
func (o *output) logLines(b []byte) []byte {
	for {
		i := bytes.IndexByte(b, '\n')
		switch {
		case i >= 0:
			o.log(text(bytes.TrimSuffix(b[:i], []byte("\r"))))
			b = b[i+1:]
		case len(b) > lineSize:
			o.log(text(b[:lineSize]))
			b = b[lineSize:]
		default:
			return b
		}
	}
}

func (o *output) keep(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, b...)
	if over := len(o.kept) - tailSize; over > tailSize {
		o.kept = append(o.kept[:0], o.kept[over:]...)
		o.lost = true
	}
}

// tail returns at most tailSize bytes, beginning with a whole line.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept, lost := o.kept, o.lost
	if over := len(kept) - tailSize; over > 0 {
		kept, lost = kept[over:], true
	}
	if lost {
		if i := bytes.IndexByte(kept, '\n'); i >= 0 && i < len(kept)-1 {
			kept = kept[i+1:]
		}
	}
	return strings.TrimRight(text(kept), "\r\n")
}

// close ends the draining, also of a pipe that a stray descendant holds open.
func (o *output) close() error {
	limit := time.NewTimer(lastWords)
	defer limit.Stop()
	select {
	case <-o.done:
	case <-limit.C:
	}
	if err := o.r.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	limit.Reset(logLimit)
	select {
	case <-o.done:
		return nil
	case <-limit.C:
		return errors.New("log function has not returned")
	}
}

// text is b for people: programs write what they like.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
