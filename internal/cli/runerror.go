package cli

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/openenv-go/openenv/provider"
)

// runError is an environment that did not run as it should. Its text can have more
// than one line: the end of the environment's output.
type runError struct {
	code int
	err  error
}

func (e *runError) Error() string { return e.err.Error() }
func (e *runError) Unwrap() error { return e.err }

// flagOf names the flags behind a provider's options.
var flagOf = map[string]string{
	"WithEnv": "--env", "WithPort": "--port", "WithVolume": "--volume", "WithMemory": "--memory", "WithCPUs": "--cpus",
	"WithReplicas": "--replicas", "WithReadyTimeout": "--ready-timeout", "WithPull": "--pull",
	"image": "run", "source": "run",
}

// notReady is why an environment does not serve. What a flag or the argument has wrong
// is a mistake of usage.
func notReady(err error) error {
	if wrong, ok := errors.AsType[*provider.ConfigError](err); ok {
		switch flag := flagOf[wrong.Setting]; {
		case flag != "":
			return usagef("%s: %w", flag, wrong.Err)
		case wrong.Setting == "WithAutoInit":
			return &runError{exitUnreachable, errors.New("run: the engine is in no swarm: run `docker swarm init` there")}
		}
	}
	return &runError{exitUnreachable, fmt.Errorf("run: %w", err)}
}

// endedLines is how much of its output an environment's end shows: with the log
// before it, that is enough.
const endedLines = 5

// ended is how an environment that was ready ended by itself.
func ended(err error) error {
	exit, ok := errors.AsType[*provider.ExitError](err)
	if !ok {
		return &runError{exitFailure, fmt.Errorf("run: %w", err)}
	}
	how := fmt.Sprintf("exited with status %d", exit.Code)
	if exit.Signal != "" {
		how = "was ended by a signal (" + exit.Signal + ")"
	}
	tail := strings.Split(strings.TrimSpace(exit.Tail), "\n")
	tail = tail[max(0, len(tail)-endedLines):]
	if tail[0] == "" {
		return &runError{exitFailure, fmt.Errorf("run: %s %s; it wrote nothing", exit.Name, how)}
	}
	return &runError{exitFailure, fmt.Errorf("run: %s %s; its output ended with:\n\t%s", exit.Name, how, strings.Join(tail, "\n\t"))}
}

// failureText is what Main prints of an error: one line, and of an environment's failure the
// rest indented below it.
func failureText(err error) string {
	if !isA[*runError](err) {
		return "oenv: " + oneLine(err.Error()) + "\n"
	}
	first, rest, _ := strings.Cut(err.Error(), "\n")
	var b strings.Builder
	b.WriteString("oenv: " + oneLine(first) + "\n")
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString("  " + printable(line) + "\n")
		}
	}
	return b.String()
}

// printable drops what could steer a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// logLine shows a line of an environment's log, as it is.
func (s *Streams) logLine(line string) { s.note(printable(line) + "\n") }
