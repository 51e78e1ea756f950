package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/moby/moby/client"
)

const (
	tailLines = "20"
	tailBytes = 4 << 10
	// tailLimit bounds the reading: a log is read when something has failed already.
	tailLimit = 5 * time.Second
)

// ContainerTail is the end of a container's log, "" if it cannot be read. It has a
// limit of its own, since it is asked for when the caller's ctx has often ended.
func (e *Engine) ContainerTail(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailLimit)
	defer cancel()
	logs, err := e.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: tailLines})
	if err != nil {
		return ""
	}
	defer logs.Close()
	return tail(logs)
}

// ServiceTail is the end of a service's log, its tasks' lines mixed.
func (e *Engine) ServiceTail(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailLimit)
	defer cancel()
	logs, err := e.ServiceLogs(ctx, id, client.ServiceLogsOptions{ShowStdout: true, ShowStderr: true, Tail: tailLines})
	if err != nil {
		return ""
	}
	defer logs.Close()
	return tail(logs)
}

// tail reads a log in the engine's framing: for each piece the number of its stream,
// three zeros, its length and its bytes. The two streams stay in their order, which
// the client's own reader would lose.
func tail(r io.Reader) string {
	var end bytes.Buffer
	var head [8]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			break
		}
		if _, err := io.CopyN(&end, r, int64(binary.BigEndian.Uint32(head[4:]))); err != nil {
			break
		}
		if extra := end.Len() - tailBytes; extra > 0 {
			end.Next(extra)
		}
	}
	text := strings.ToValidUTF8(end.String(), "")
	return strings.TrimRightFunc(strings.Map(printable, text), unicode.IsSpace)
}

// printable drops what could play tricks on a terminal.
func printable(r rune) rune {
	if r == '\n' || r == '\t' || unicode.IsPrint(r) {
		return r
	}
	return -1
}
