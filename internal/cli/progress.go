package cli

import (
	"sync"
	"time"
)

// progressInterval is often enough to look alive and seldom enough to read.
const progressInterval = 100 * time.Millisecond

// progress shows text in a line of the terminal until stop is called, which wipes
// it. When standard error is no terminal it does nothing: a log wants no repetitions.
func (s *Streams) progress(text func() string) (stop func()) {
	if !s.ErrTerminal {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticks := time.NewTicker(progressInterval)
		defer ticks.Stop()
		for {
			s.note("\r" + text() + "\x1b[K")
			select {
			case <-ticks.C:
			case <-done:
				s.note("\r\x1b[K")
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
