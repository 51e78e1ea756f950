package cli

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Streams are what a command reads and writes, and what is at the other end.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer

	// Whether a terminal is at the other end.
	InTerminal, OutTerminal, ErrTerminal bool

	// NoColor forbids colours on a terminal; elsewhere there are none.
	NoColor bool

	stdin, stdout *os.File // for the terminal's settings; nil when there is none
}

// System returns the streams of this process. The variables NO_COLOR, when it is
// not empty, and TERM=dumb forbid colours.
func System() *Streams {
	terminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	return &Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal:  terminal(os.Stdin),
		OutTerminal: terminal(os.Stdout),
		ErrTerminal: terminal(os.Stderr),
		NoColor:     os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb",
		stdin:       os.Stdin,
		stdout:      os.Stdout,
	}
}

// note writes what is not a result to standard error. When that fails there is
// nobody to tell.
func (s *Streams) note(text string) { _, _ = io.WriteString(s.Err, text) }

// defaultWidth is for output that no terminal limits, so that files look the same
// wherever they are made.
const defaultWidth = 100

// width is the number of columns that tables have.
func (s *Streams) width() int {
	if !s.OutTerminal || s.stdout == nil {
		return defaultWidth
	}
	columns, _, err := term.GetSize(int(s.stdout.Fd()))
	if err != nil || columns <= 0 {
		return defaultWidth
	}
	return columns
}

// style is a sequence that changes how a terminal prints.
type style string

const (
	bold  style = "\x1b[1m"
	dim   style = "\x1b[2m"
	red   style = "\x1b[31m"
	green style = "\x1b[32m"
	cyan  style = "\x1b[36m"

	plain = "\x1b[0m"
)

// paint puts text in a style where standard output shows colours.
func (s *Streams) paint(st style, text string) string {
	if !s.OutTerminal || s.NoColor || text == "" {
		return text
	}
	return string(st) + text + plain
}

// oneLine makes text of any origin safe to print within a line: whitespace becomes
// one space, and a control character, which could steer the terminal, a question
// mark.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
}
