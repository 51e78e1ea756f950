// Package memnet is a network inside the process, for tests: HTTP and
// WebSocket run over it without sockets, so they also run inside a
// testing/synctest bubble, where waiting on a socket would stop the clock.
//
//	l := memnet.Listen()
//	srv := &http.Server{Handler: h}
//	go srv.Serve(l)
//	client := &http.Client{Transport: l.Transport()}
//	res, err := client.Get("http://" + l.Addr().String())
//
// Connections are pairs of [net.Pipe]: they hold no bytes, a write returns
// when the other end has read it. Every channel belongs to a [Listener] or a
// connection, so one made inside a bubble stays inside it.
package memnet

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
)

const network = "memnet"

// address is the stable address of every listener; the top-level domain is
// reserved for tests, so that a dial that misses the listener finds nobody.
const address = addr("memnet.test:80")

type addr string

func (addr) Network() string  { return network }
func (a addr) String() string { return string(a) }

// Listener is a [net.Listener] whose only way in is its own Dial. It is safe
// for concurrent use.
type Listener struct {
	incoming  chan net.Conn
	closed    chan struct{}
	closeOnce sync.Once
}

// Listen returns a listener; its owner closes it.
func Listen() *Listener {
	return &Listener{incoming: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for the next Dial. Once the listener is closed it returns an
// error that matches [net.ErrClosed].
func (l *Listener) Accept() (net.Conn, error) {
	if !l.isClosed() {
		select {
		case c := <-l.incoming:
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: network, Addr: address, Err: net.ErrClosed}
}

// Close ends every waiting Accept and Dial. Established connections live on,
// as they do with a socket. Closing again has no effect.
func (l *Listener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return nil
}

// Addr returns an address that can stand in a URL. It is the same for all
// listeners: it names none of them, only their own Dial reaches them.
func (l *Listener) Addr() net.Addr { return address }

// Dial connects to the listener. There is no backlog: it returns when the
// connection is accepted, ctx ends, or the listener is closed; the last gives
// an error that matches [syscall.ECONNREFUSED]. The caller closes the
// connection, ctx has no hold on it.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, dialError(err)
	}
	if l.isClosed() {
		return nil, refused()
	}
	client, server := newPair()
	select {
	case l.incoming <- server:
		return client, nil
	case <-l.closed:
		return nil, refused()
	case <-ctx.Done():
		return nil, dialError(ctx.Err())
	}
}

// DialContext is Dial in the shape of [http.Transport]; the network and the
// address are ignored, every host is this listener.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.Dial(ctx)
}

// Transport returns a new transport that reaches the listener whatever the
// URL's host, and never a proxy. Its caller ends the idle connections with
// CloseIdleConnections; inside a bubble that must come before the test ends.
func (l *Listener) Transport() *http.Transport {
	return &http.Transport{DialContext: l.DialContext}
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

func refused() error { return dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED)) }

func dialError(err error) error {
	return &net.OpError{Op: "dial", Net: network, Addr: address, Err: err}
}
