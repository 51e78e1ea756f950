package envserver

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// thread is a goroutine that is locked to its OS thread and runs what is submitted,
// one after the other. A nil thread is no thread.
type thread struct {
	work  chan func()
	quit  chan struct{}
	ended chan struct{}
	own   bool // of one session: ends with it
	once  sync.Once
}

var errThreadEnded = errors.New("the environment has ended its own thread")

func startThread(own bool) *thread {
	t := &thread{work: make(chan func()), quit: make(chan struct{}), ended: make(chan struct{}), own: own}
	go t.loop()
	return t
}

// loop never unlocks the thread: what was bound to it ends with it. It also ends when
// the code it runs calls runtime.Goexit.
func (t *thread) loop() {
	runtime.LockOSThread()
	defer close(t.ended)
	for {
		select {
		case f := <-t.work:
			f()
		case <-t.quit:
			return
		}
	}
}

// submit returns when the thread has begun with f. With an error f will not run: ctx
// ended while the thread was busy, or the thread is gone.
func (t *thread) submit(ctx context.Context, f func()) error {
	select {
	case t.work <- f:
		return nil
	case <-t.ended:
		return errThreadEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release ends a session's own thread and waits for it.
func (t *thread) release() {
	if t != nil && t.own {
		t.stop()
	}
}

// stop ends the thread after what it is running, and waits for it. It is idempotent.
func (t *thread) stop() {
	if t == nil {
		return
	}
	t.once.Do(func() { close(t.quit) })
	<-t.ended
}
