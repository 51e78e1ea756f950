package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv"
)

// The exit codes. Scripts depend on them: a code keeps its meaning.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitCapacity    = 4
	exitLost        = 5
	exitInterrupted = 130 // what a shell reports for a program that SIGINT ended
	exitTerminated  = 143 // and for one that SIGTERM ended
)

// exitCodes documents them, for `oenv help exit-codes`.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "success"},
	{exitFailure, "an operation failed: the server answered with an error or with something unusable; run: the environment ended by itself"},
	{exitUsage, "usage: a flag, an argument, or a line of play that is not understood"},
	{exitUnreachable, "the server cannot be reached, or it refused the connection; run: the environment did not get ready; ps, prune: no engine"},
	{exitCapacity, "the server is at capacity"},
	{exitLost, "the session was lost, or no reply came in time; rollout: episodes were lost in every attempt"},
	{exitInterrupted, "interrupted"},
	{exitTerminated, "serve, run: a second SIGTERM did not let it finish"},
}

// errInterrupted is a command that was told to end, by Ctrl-C or SIGTERM.
var errInterrupted = errors.New("interrupted")

// usageError is a mistake in how oenv was called; nothing was done.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// codeOf maps an error to its exit code. The order matters: what an episode died of
// can be a connection, and then it is the episode that counts.
func codeOf(err error) int {
	if killed, ok := errors.AsType[*signalError](err); ok {
		return killed.code()
	}
	if failed, ok := errors.AsType[*runError](err); ok {
		return failed.code
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case isA[*usageError](err):
		return exitUsage
	case errors.Is(err, openenv.ErrCapacity):
		return exitCapacity
	case isA[*openenv.SessionLostError](err), isTimeout(err):
		return exitLost
	case isA[*openenv.ConnectError](err):
		return exitUnreachable
	}
	return exitFailure
}

func isTimeout(err error) bool {
	return errors.Is(err, openenv.ErrMessageTimeout) || errors.Is(err, context.DeadlineExceeded)
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// newExitCodes is a help topic: a command that cannot be run.
func newExitCodes() *cobra.Command {
	var text strings.Builder
	text.WriteString("oenv ends with one of these codes:\n\n")
	for _, row := range exitCodes {
		fmt.Fprintf(&text, "  %3d  %s\n", row.code, row.meaning)
	}
	text.WriteString("\nWhen play reads lines from a file or a pipe, the code is that of the first line that failed.")
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: text.String()}
}
