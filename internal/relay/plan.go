package relay

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"time"
)

// Conn is a connection as a plan sees it.
type Conn struct {
	Number int    // in the order of arrival, from 0
	Head   []byte // what the client sent first, as far as one read gave it; not to be changed
}

// Plan says which faults a connection meets. The relay asks it with the first chunk of
// each direction, and again after each fault.
type Plan interface {
	// Next returns the first fault of a direction of c at byte from or later, and
	// false when there is none. It is called from many goroutines at once, and its
	// answer must depend on nothing but its arguments.
	Next(c Conn, d Direction, from int64) (Fault, bool)
}

// None is the plan without faults.
type None struct{}

// Next implements [Plan].
func (None) Next(Conn, Direction, int64) (Fault, bool) { return Fault{}, false }

// Script lists the faults of each connection in the order of arrival. Connections
// beyond its end meet none.
type Script [][]Fault

// Next implements [Plan].
func (s Script) Next(c Conn, d Direction, from int64) (next Fault, ok bool) {
	if c.Number >= len(s) {
		return Fault{}, false
	}
	for _, f := range s[c.Number] {
		if f.Direction == d && f.Offset >= from && (!ok || f.Offset < next.Offset) {
			next, ok = f, true
		}
	}
	return next, ok
}

// Every has a fault after every so many bytes of each direction, its kinds in turn.
type Every struct {
	Bytes int64 // at least 1
	Kinds []Kind
	Place Place
	For   time.Duration // of Delay
}

// Next implements [Plan].
func (e Every) Next(_ Conn, d Direction, from int64) (Fault, bool) {
	if e.Bytes < 1 || len(e.Kinds) == 0 {
		return Fault{}, false
	}
	n := max((from+e.Bytes-1)/e.Bytes, 1)
	kind := e.Kinds[(n-1)%int64(len(e.Kinds))]
	return Fault{Kind: kind, Direction: d, Offset: n * e.Bytes, Place: e.Place, For: e.For}, true
}

// Random has faults at random bytes of both directions: in mid-request, in mid-reply,
// and between messages. All that is random comes from Seed, the connection's number
// and the direction.
type Random struct {
	Seed     uint64
	Kinds    []Kind
	Min, Max int64         // the least and the most bytes of a direction before its next fault
	For      time.Duration // the longest Delay
	Limit    int           // connections from this number on meet no fault; 0: all do
}

// Next implements [Plan].
func (r Random) Next(c Conn, d Direction, from int64) (Fault, bool) {
	if len(r.Kinds) == 0 || r.Limit > 0 && c.Number >= r.Limit {
		return Fault{}, false
	}
	draw := rand.New(rand.NewPCG(r.Seed, uint64(c.Number)<<1|uint64(d)))
	f := Fault{Direction: d}
	for at := int64(0); at == 0 || f.Offset < from; at = f.Offset + 1 {
		f.Offset = at + r.Min + draw.Int64N(max(r.Max-r.Min, 0)+1)
		f.Kind = r.Kinds[draw.IntN(len(r.Kinds))]
		f.Place = []Place{Before, Within, After}[draw.IntN(3)]
		f.For = time.Duration(draw.Int64N(int64(max(r.For, 0)) + 1))
	}
	return f, true
}

// Sockets is a plan for WebSocket connections alone: those whose head asks for the
// upgrade meet the faults of the plan within, all others meet none.
type Sockets struct{ Plan }

// Next implements [Plan].
func (s Sockets) Next(c Conn, d Direction, from int64) (Fault, bool) {
	if !slices.ContainsFunc(bytes.Split(c.Head, []byte("\r\n")), asksForUpgrade) {
		return Fault{}, false
	}
	return s.Plan.Next(c, d, from)
}

func asksForUpgrade(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	return bytes.EqualFold(name, []byte("Upgrade")) && bytes.EqualFold(bytes.TrimSpace(value), []byte("websocket"))
}
