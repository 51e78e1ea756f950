package relay

import (
	"fmt"
	"time"
)

// Kind is a way to break a connection.
type Kind int

const (
	// Cut closes both sides in order: each end reads the end of the stream.
	Cut Kind = iota + 1
	// Abort resets both sides.
	Abort
	// HalfClose ends one direction: its receiver reads the end of the stream, and
	// what its sender still writes is swallowed. The other direction goes on.
	HalfClose
	// Delay holds one direction up for the fault's time, and loses nothing.
	Delay
	// Blackhole swallows all further bytes of both directions. Both sockets stay
	// open, and neither end learns of the other's close.
	Blackhole
	// Truncate forwards the part of a chunk before the fault's byte, and resets both
	// sides: [Abort] in mid-frame.
	Truncate
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Cut:
		return "cut"
	case Abort:
		return "abort"
	case HalfClose:
		return "half-close"
	case Delay:
		return "delay"
	case Blackhole:
		return "black hole"
	case Truncate:
		return "truncate"
	default:
		return fmt.Sprintf("kind %d", int(k))
	}
}

// Direction is one of the two streams of a connection.
type Direction int

const (
	ToServer Direction = iota // requests
	ToClient                  // replies
)

// String returns the direction's name.
func (d Direction) String() string {
	if d == ToServer {
		return "to the server"
	}
	return "to the client"
}

// Place is the place of a fault in the chunk that holds its byte. A chunk is what one
// read gave: for small messages, which wait for each other, one message.
type Place int

const (
	Before Place = iota // nothing of the chunk is forwarded
	Within              // the chunk is split at the byte, never at its ends unless it has one byte
	After               // the whole chunk is forwarded
)

// String returns the place's name.
func (p Place) String() string {
	switch p {
	case Within:
		return "within"
	case After:
		return "after"
	default:
		return "before"
	}
}

// Fault is one fault of a plan.
type Fault struct {
	Kind      Kind
	Direction Direction
	Offset    int64         // the byte of the direction's stream that calls for the fault, from 0
	Place     Place         // of Truncate it is always Within
	For       time.Duration // of Delay: how long
}

// keeps returns how many bytes of a chunk are forwarded before the fault, when the
// chunk starts at start.
func (f Fault) keeps(start int64, length int) int {
	place := f.Place
	if f.Kind == Truncate {
		place = Within
	}
	switch {
	case place == After:
		return length
	case place == Before || length < 2:
		return 0
	default:
		return int(min(max(f.Offset-start, 1), int64(length-1)))
	}
}

// Strike is a fault that was done.
type Strike struct {
	Conn int // the connection, in the order of arrival from 0
	Fault
}
