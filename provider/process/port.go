package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// port is a port of 127.0.0.1 that a server is to take. Between the choice and the
// server's bind another program could take it, and answer in the server's place.
// On Linux it is therefore held: by a socket that is bound with SO_REUSEADDR and does
// not listen, so that the kernel gives the port to nobody who asks for any, while a
// server that sets SO_REUSEADDR, as nearly all do, can bind it. Elsewhere the time
// between is short, and a command that exits is noticed before its port is trusted.
type port struct {
	number int
	hold   *os.File // nil when it is not held
}

// held reports whether a reservation is in force.
func (p *port) held() bool { return p.hold != nil }

// release gives the port up, if it was not already.
func (p *port) release() {
	if p.hold != nil {
		_ = p.hold.Close() // nothing was written to it
		p.hold = nil
	}
}

// addressInUse reports whether a server's output says that its port was taken.
func addressInUse(output string) bool {
	output = strings.ToLower(output)
	return strings.Contains(output, "address already in use") || strings.Contains(output, "eaddrinuse")
}

// probe finds a free port, or checks that the wanted one is.
func probe(ctx context.Context, wanted int) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(wanted))
	if err != nil {
		return 0, fmt.Errorf("port: %w", err)
	}
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, errors.Join(err, l.Close())
	}
	number, err := strconv.Atoi(text)
	return number, errors.Join(err, l.Close())
}
