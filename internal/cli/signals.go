package cli

import (
	"context"
	"fmt"
	"os"
)

// untilSignals ends run at the first signal and no longer waits for it at the second,
// whose loss the error then tells. The second is not left to the signal's default
// action, which does not exist for the first process of a container.
func untilSignals(ctx context.Context, s *Streams, signals <-chan os.Signal, command, loss string, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	for first := true; ; first = false {
		select {
		case err := <-ended:
			return err
		case sig := <-signals:
			if !first {
				return &signalError{command: command, loss: loss, sig: sig}
			}
			stop()
			if s.ErrTerminal {
				s.note("oenv: ending; once more to end at once\n")
			}
		}
	}
}

// signalError is a command that a second signal ended before it had finished.
type signalError struct {
	command string
	loss    string
	sig     os.Signal
}

func (e *signalError) Error() string {
	return fmt.Sprintf("%s: ended by a second signal (%v): %s", e.command, e.sig, e.loss)
}

// code is what a shell reports for a program that the signal ended.
func (e *signalError) code() int {
	if e.sig == os.Interrupt {
		return exitInterrupted
	}
	return exitTerminated
}
