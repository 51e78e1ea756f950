// Package wsock is one WebSocket under this project's rules, for both ends:
// whole text messages in and out, a message limit that says whose it was,
// liveness by any byte received, control frames that never block the reader,
// large messages in pieces, and a close that is bounded in time.
//
// The protocol itself is github.com/coder/websocket. That library writes a pong
// from inside its read loop; this package gives it a connection of its own (lane)
// between the library and the network, so that a peer which floods pings and
// reads nothing cannot stop us from reading.
package wsock

import (
	"errors"
	"fmt"
	"time"
)

// PieceSize is the largest frame of a message: control frames get their chance
// between two pieces.
const PieceSize = 64 << 10

// Options are the limits of one connection. Zero switches a limit off, except
// CloseTimeout, whose zero means that closing does not wait for the peer at all.
type Options struct {
	ReadLimit    int64         // bytes of one message received
	PingInterval time.Duration // time between two pings
	PongTimeout  time.Duration // a ping must be followed by any byte within this
	CloseTimeout time.Duration // the whole of Close
	WriteTimeout time.Duration // one Write, beside its ctx
	Compression  bool          // offer or accept permessage-deflate
	Remember     string        // a header of the answer to Dial, see [Conn.Remembered]; "" is none
	Subprotocols []string      // offered by Dial; those that Accept takes are in AcceptOptions
}

// ErrTooBig is matched by the error of a message above this end's ReadLimit. The
// peer was told with close code 1009.
var ErrTooBig = errors.New("message exceeds the local limit")

// ErrKeepalive is matched by the error of a connection on which nothing arrived
// within PongTimeout of a ping.
var ErrKeepalive = errors.New("keepalive timeout")

// ErrWriteTimeout is matched by the error of a Write that the peer did not take
// within WriteTimeout. The connection is broken.
var ErrWriteTimeout = errors.New("write timeout")

// CancelledError is the end of a connection whose Write was cut off because its ctx
// ended. It does not unwrap to the ctx's error, which belongs to the writer alone.
type CancelledError struct{ Cause error }

func (e *CancelledError) Error() string { return "write was cancelled: " + e.Cause.Error() }

// CloseTooBig is the close code of a peer that met a message above its own limit.
const CloseTooBig = 1009

// CloseError is the peer's close frame.
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("closed by the peer with code %d", e.Code)
	}
	return fmt.Sprintf("closed by the peer with code %d (%s)", e.Code, e.Reason)
}

// HandshakeError is a refused upgrade. Status is 0 when no response arrived.
type HandshakeError struct {
	Status int
	Err    error
}

func (e *HandshakeError) Error() string { return e.Err.Error() }
func (e *HandshakeError) Unwrap() error { return e.Err }
