package wsock_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/memnet"
	"github.com/openenv-go/openenv/internal/wsock"
)

// place is where a test runs: over loopback sockets, or over pipes in a bubble,
// where time stands still unless everybody waits.
type place struct {
	name   string
	listen func(t *testing.T) net.Listener
	dial   func(ctx context.Context, l net.Listener) (net.Conn, error)
}

var (
	loopback = place{
		name: "loopback",
		listen: func(t *testing.T) net.Listener {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return l
		},
		dial: func(ctx context.Context, l net.Listener) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		},
	}
	memory = place{
		name:   "memory",
		listen: func(*testing.T) net.Listener { return memnet.Listen() },
		dial:   func(ctx context.Context, l net.Listener) (net.Conn, error) { return l.(*memnet.Listener).Dial(ctx) },
	}
)

// everywhere runs test in both places.
func everywhere(t *testing.T, test func(t *testing.T, at place)) {
	t.Helper()
	t.Run(loopback.name, func(t *testing.T) { test(t, loopback) })
	t.Run(memory.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, memory) }) })
}

// client returns an HTTP client that reaches l whatever the host. Its idle
// connections are gone when the test ends.
func (at place) client(t *testing.T, l net.Listener) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return at.dial(ctx, l) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// serve runs h on a new listener until the test ends.
func (at place) serve(t *testing.T, h http.Handler) net.Listener {
	t.Helper()
	l := at.listen(t)
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return l
}

// pair connects two ends under test. Both are dropped when the test ends.
func (at place) pair(t *testing.T, clientOpts, serverOpts wsock.Options) (client, server *wsock.Conn) {
	t.Helper()
	accepted := make(chan *wsock.Conn, 1)
	l := at.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := wsock.Accept(w, r, wsock.AcceptOptions{}, serverOpts)
		if err != nil {
			t.Errorf("accept: %v", err)
		}
		accepted <- c
	}))
	client, err := wsock.Dial(t.Context(), "ws://server.test/ws", at.client(t, l), nil, clientOpts)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() {
		client.Abort()
		server.Abort()
	})
	return client, server
}

// role is which end is under test; the other end is raw.
type role string

const (
	asClient role = "client"
	asServer role = "server"
)

// bothRoles runs test for each end, in a bubble or not as at says.
func bothRoles(t *testing.T, at place, test func(t *testing.T, as role)) {
	t.Helper()
	for _, as := range []role{asClient, asServer} {
		t.Run(string(as), func(t *testing.T) {
			if at.name == memory.name {
				synctest.Test(t, func(t *testing.T) { test(t, as) })
			} else {
				test(t, as)
			}
		})
	}
}

// against connects an end under test with a raw one. Both are dropped when the
// test ends.
func (at place) against(t *testing.T, as role, opts wsock.Options) (*wsock.Conn, *rawPeer) {
	t.Helper()
	var conn *wsock.Conn
	var raw *rawPeer
	if as == asClient {
		l := at.listen(t)
		upgraded := make(chan *rawPeer, 1)
		go func() {
			defer l.Close()
			c, err := l.Accept()
			if err != nil {
				t.Errorf("accept: %v", err)
				close(upgraded)
				return
			}
			upgraded <- upgradeRaw(t, c)
		}()
		var err error
		if conn, err = wsock.Dial(t.Context(), "ws://server.test/ws", at.client(t, l), nil, opts); err != nil {
			t.Fatal(err)
		}
		raw = <-upgraded
	} else {
		accepted := make(chan *wsock.Conn, 1)
		l := at.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := wsock.Accept(w, r, wsock.AcceptOptions{}, opts)
			if err != nil {
				t.Errorf("accept: %v", err)
			}
			accepted <- c
		}))
		c, err := at.dial(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		raw = dialRaw(t, c)
		conn = <-accepted
	}
	t.Cleanup(func() {
		conn.Abort()
		raw.Close()
	})
	return conn, raw
}

// rawPeer reads and writes frames, and checks every one that it reads against
// RFC 6455.
type rawPeer struct {
	net.Conn
	in    *bufio.Reader
	masks bool // this end is the client
}

func upgradeRaw(t *testing.T, c net.Conn) *rawPeer {
	in := bufio.NewReader(c)
	req, err := http.ReadRequest(in)
	if err != nil {
		t.Errorf("upgrade: %v", err)
		return nil
	}
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	return &rawPeer{Conn: c, in: in}
}

func dialRaw(t *testing.T, c net.Conn) *rawPeer {
	_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: server.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", resp, err)
	}
	return &rawPeer{Conn: c, in: in, masks: true}
}

const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// discard reads to the end.
func discard(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

type frame struct {
	fin     bool
	op      byte
	payload []byte
}

// append appends f as it is on the wire.
func (p *rawPeer) append(b []byte, f frame) []byte {
	first := f.op
	if f.fin {
		first |= 0x80
	}
	var mask byte
	if p.masks {
		mask = 0x80
	}
	b = append(b, first)
	switch n := len(f.payload); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if !p.masks {
		return append(b, f.payload...)
	}
	var key [4]byte
	if len(f.payload) > 1<<20 {
		// The race detector is slow over bytes; a key of zeros is valid, too.
		return append(append(b, key[:]...), f.payload...)
	}
	rand.Read(key[:])
	b = append(b, key[:]...)
	start := len(b)
	b = append(b, f.payload...)
	flip(b[start:], key)
	return b
}

func flip(b []byte, key [4]byte) {
	for i := range b {
		b[i] ^= key[i%4]
	}
}

func (p *rawPeer) send(f frame) error {
	_, err := p.Write(p.append(make([]byte, 0, len(f.payload)+14), f))
	return err
}

var errMalformed = errors.New("malformed frame")

// receive reads the next frame. Its error matches errMalformed when what arrived
// is no frame that this end may get, and io.EOF when it ended between two frames.
func (p *rawPeer) receive() (frame, error) {
	var head [2]byte
	if n, err := io.ReadFull(p.in, head[:]); err != nil {
		if n == 0 {
			return frame{}, err
		}
		return frame{}, io.ErrUnexpectedEOF
	}
	f := frame{fin: head[0]&0x80 != 0, op: head[0] & 0xF}
	control := f.op >= opClose
	size := uint64(head[1] & 0x7F)
	switch {
	case head[0]&0x70 != 0:
		return f, fmt.Errorf("%w: reserved bits in %x", errMalformed, head)
	case f.op > opBinary && f.op < opClose || f.op > opPong:
		return f, fmt.Errorf("%w: opcode %x", errMalformed, f.op)
	case control && (!f.fin || size > 125):
		return f, fmt.Errorf("%w: control frame %x", errMalformed, head)
	case (head[1]&0x80 != 0) == p.masks:
		return f, fmt.Errorf("%w: masked: %v", errMalformed, !p.masks)
	}
	var wide [8]byte
	switch size {
	case 126:
		if _, err := io.ReadFull(p.in, wide[6:]); err != nil {
			return f, io.ErrUnexpectedEOF
		}
		size = binary.BigEndian.Uint64(wide[:])
	case 127:
		if _, err := io.ReadFull(p.in, wide[:]); err != nil {
			return f, io.ErrUnexpectedEOF
		}
		size = binary.BigEndian.Uint64(wide[:])
	}
	if size > 1<<30 {
		return f, fmt.Errorf("%w: %d bytes", errMalformed, size)
	}
	var key [4]byte
	if !p.masks {
		if _, err := io.ReadFull(p.in, key[:]); err != nil {
			return f, io.ErrUnexpectedEOF
		}
	}
	f.payload = make([]byte, size)
	if _, err := io.ReadFull(p.in, f.payload); err != nil {
		return f, io.ErrUnexpectedEOF
	}
	if !p.masks {
		flip(f.payload, key)
	}
	return f, nil
}

// messages joins frames to messages and passes on control frames. It fails when a
// message begins inside another one.
type messages struct {
	open bool
	text []byte
}

func (m *messages) add(f frame) (whole []byte, done bool, err error) {
	switch f.op {
	case opText, opBinary:
		if m.open {
			return nil, false, fmt.Errorf("%w: a message inside a message", errMalformed)
		}
		m.text = nil
	case opContinuation:
		if !m.open {
			return nil, false, fmt.Errorf("%w: a continuation of nothing", errMalformed)
		}
	default:
		return nil, false, nil
	}
	m.text = append(m.text, f.payload...)
	m.open = !f.fin
	return m.text, f.fin, nil
}

// inbox reads a connection as its owner does, for its whole life.
type inbox struct {
	texts  chan string
	ended  chan struct{}
	err    error // valid once ended is closed
	binary bool
}

func receive(c *wsock.Conn) *inbox {
	in := &inbox{texts: make(chan string, 100), ended: make(chan struct{})}
	go func() {
		defer close(in.ended)
		for {
			buf, binary, err := c.Read(func() *bytes.Buffer { return new(bytes.Buffer) })
			if err != nil {
				in.err = err
				return
			}
			in.binary = binary
			in.texts <- buf.String()
		}
	}()
	return in
}

// next waits for a message; real time is bounded by a generous limit.
func (in *inbox) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-in.texts:
		return text
	case <-in.ended:
		t.Fatalf("connection ended: %v", in.err)
	case <-time.After(time.Minute):
		t.Fatal("no message within a minute")
	}
	return ""
}

// end waits for the end of the connection and returns its error.
func (in *inbox) end(t *testing.T) error {
	t.Helper()
	select {
	case <-in.ended:
		return in.err
	case <-time.After(time.Minute):
		t.Fatal("connection did not end within a minute")
	}
	return nil
}
