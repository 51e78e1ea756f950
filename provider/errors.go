package provider

import (
	"fmt"
	"strings"
)

// ConfigError says what a provider needs and was not given, or was given wrongly.
// It comes from Start, before anything runs.
type ConfigError struct {
	Provider string // such as "process"
	Setting  string // what is missing or wrong, such as "command" or an option's name
	Err      error
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s provider: %s: %v", e.Provider, e.Setting, e.Err)
}
func (e *ConfigError) Unwrap() error { return e.Err }

// ExitError says that an environment's server ended while it was waited for.
type ExitError struct {
	Name   string // of the program or the container
	Code   int    // -1 when a signal ended it
	Signal string // such as "killed", empty when it exited by itself
	Tail   string // the end of its output
}

func (e *ExitError) Error() string {
	how := fmt.Sprintf("exited with status %d", e.Code)
	if e.Signal != "" {
		how = "was ended by a signal (" + e.Signal + ")"
	}
	return fmt.Sprintf("%s %s before it was ready%s", e.Name, how, lastWords(e.Tail))
}

// NotReadyError says that an environment's server runs and did not become ready.
type NotReadyError struct {
	Name string // of the program or the container
	Err  error  // the limit or the context that ended the wait, and what was seen last
	Tail string // the end of its output
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%s: %v%s", e.Name, e.Err, lastWords(e.Tail))
}
func (e *NotReadyError) Unwrap() error { return e.Err }

// shownLines is how much of a tail an error's text shows. All of it is in the field.
const shownLines = 10

// lastWords is the end of an error's text: the last lines of an output, indented.
func lastWords(tail string) string {
	tail = strings.TrimSpace(tail)
	if tail == "" {
		return "; it wrote nothing"
	}
	lines := strings.Split(tail, "\n")
	if over := len(lines) - shownLines; over > 0 {
		lines = lines[over:]
	}
	return "; its output ended with:\n\t" + strings.Join(lines, "\n\t")
}
