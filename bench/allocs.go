package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"

	"crypto/sha1" //nolint:gosec // the WebSocket handshake is made of it (RFC 6455, 4.2.2)
	"encoding/base64"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
)

// Allocs are the allocations of one step on the client alone.
type Allocs struct {
	Typed float64 `json:"typed"`
	Await float64 `json:"await"`
	Raw   float64 `json:"raw_map"`
}

// measureAllocs steps against a peer that allocates nothing, so that every allocation
// of the process is the client's.
func measureAllocs(ctx context.Context) (Allocs, error) {
	var out Allocs
	peer, err := newSilentPeer()
	if err != nil {
		return out, err
	}
	defer peer.Close()
	url := "http://" + peer.Addr().String()
	typed, err := openenv.New(echo.Spec, url)
	if err != nil {
		return out, err
	}
	defer func() { _ = typed.Close() }()
	futures, err := openenv.New(echo.Spec, url)
	if err != nil {
		return out, err
	}
	defer func() { _ = futures.Close() }()
	raw, err := openenv.New(openenv.Generic, url)
	if err != nil {
		return out, err
	}
	defer func() { _ = raw.Close() }()

	ctx, cancel := context.WithCancel(ctx) // a ctx that can end, as callers have
	defer cancel()
	action := echo.Action{Message: strings.Repeat("x", small)}
	object := openenv.Object{"message": action.Message}
	out.Typed, err = allocsPer(func() error { return blocking(ctx, typed, action) })
	if err != nil {
		return out, err
	}
	out.Await, err = allocsPer(func() error { return await(ctx, futures, action) })
	if err != nil {
		return out, err
	}
	out.Raw, err = allocsPer(func() error { _, err := raw.Step(ctx, object); return err })
	return out, err
}

// allocsPer is the mean over enough calls that what happens once does not count.
func allocsPer(f func() error) (float64, error) {
	const calls = 5000
	for range 100 {
		if err := f(); err != nil {
			return 0, err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		if err := f(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / calls, nil
}

// newSilentPeer serves the session socket with one canned reply and no allocation
// between two of them.
func newSilentPeer() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer conn.Close()
				_ = playSilentPeer(conn) // ends when the client leaves
			}()
		}
	}()
	return l, nil
}

func playSilentPeer(conn net.Conn) error {
	br := bufio.NewReader(conn)
	req, err := http.ReadRequest(br)
	if err != nil {
		return err
	}
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see the import
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n"); err != nil {
		return err
	}
	body := `{"type":"observation","data":{"observation":{"metadata":{},"echoed":"` + strings.Repeat("x", small) + `","length":100},"reward":10.0,"done":false}}`
	reply := append([]byte{0x81, 126, byte(len(body) >> 8), byte(len(body))}, body...)
	head := make([]byte, 8)
	for {
		size, err := readHeader(br, head)
		if err != nil {
			return err
		}
		if _, err := br.Discard(size); err != nil {
			return err
		}
		if _, err := conn.Write(reply); err != nil {
			return err
		}
	}
}

// readHeader reads the header of a client's text frame and returns its payload's size.
func readHeader(br *bufio.Reader, head []byte) (int, error) {
	if _, err := io.ReadFull(br, head[:2]); err != nil {
		return 0, err
	}
	if head[0] != 0x81 {
		return 0, errors.New("not a whole text frame")
	}
	size := int(head[1] & 0x7F)
	if size == 126 {
		if _, err := io.ReadFull(br, head[:2]); err != nil {
			return 0, err
		}
		size = int(binary.BigEndian.Uint16(head))
	}
	_, err := io.ReadFull(br, head[:4]) // the mask
	return size, err
}
