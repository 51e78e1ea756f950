package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// clientAddress is the far end as a server sees it. It has a host and a port,
// since servers split the two.
const clientAddress = addr("client.test:1")

// conn gives one end of a pipe the addresses and the errors of a socket.
type conn struct {
	net.Conn
	local, remote addr
	closed        atomic.Bool
}

func newPair() (client, server net.Conn) {
	a, b := net.Pipe()
	return &conn{Conn: a, local: clientAddress, remote: address},
		&conn{Conn: b, local: address, remote: clientAddress}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.socketError("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.socketError("write", err)
}

func (c *conn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// socketError replaces the pipe's one word for "closed" by the two of a
// socket: code under test tells its own close from the peer's.
func (c *conn) socketError(op string, err error) error {
	if !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	cause := net.ErrClosed
	if !c.closed.Load() {
		cause = os.NewSyscallError(op, syscall.EPIPE)
	}
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: cause}
}
