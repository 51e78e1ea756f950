package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"golang.org/x/term"
)

// lines reads the input of play, one line at a time and only when asked: between
// two reads the terminal is an ordinary one, in which Ctrl-C is a signal.
type lines struct {
	read    func() (string, error)
	restore func() // gives the terminal back as it was found
}

// next returns the next line, without its end; io.EOF after the last. When ctx ends
// first, the read is left behind: nothing can interrupt it, and the process ends next.
func (l *lines) next(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		text, err := l.read()
		got <- line{text, err}
	}()
	select {
	case in := <-got:
		return in.text, in.err
	case <-ctx.Done():
		return "", errInterrupted
	}
}

// plainLines reads a file, a pipe, or a terminal without editing.
func plainLines(in io.Reader) *lines {
	buffered := bufio.NewReader(in)
	return &lines{
		restore: func() {},
		read: func() (string, error) {
			text, err := buffered.ReadString('\n')
			if errors.Is(err, io.EOF) && text != "" {
				err = nil // a last line without an end
			}
			return strings.TrimRight(text, "\r\n"), err
		},
	}
}

// editedLines reads a terminal, with editing and a history.
func editedLines(s *Streams) (*lines, error) {
	in := int(s.stdin.Fd())
	initial, err := term.GetState(in)
	if err != nil {
		return nil, err
	}
	watched := &ctrlC{from: s.In}
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{watched, s.Out}, s.paint(cyan, "oenv>")+" ")
	read := func() (string, error) {
		if columns, rows, err := term.GetSize(int(s.stdout.Fd())); err == nil && columns > 0 {
			if err := editor.SetSize(columns, rows); err != nil {
				return "", err
			}
		}
		raw, err := term.MakeRaw(in)
		if err != nil {
			return "", err
		}
		defer term.Restore(in, raw) //nolint:errcheck // it was set a moment ago
		text, err := editor.ReadLine()
		if errors.Is(err, io.EOF) && watched.pressed {
			err = errInterrupted
		}
		return text, err
	}
	return &lines{read: read, restore: func() { _ = term.Restore(in, initial) }}, nil
}

// ctrlC notices the key that the editor does not tell from the end of the input. A
// terminal in raw mode sends no signal for it.
type ctrlC struct {
	from    io.Reader
	pressed bool
}

func (c *ctrlC) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.pressed = c.pressed || bytes.IndexByte(p[:n], 3) >= 0
	return n, err
}
