package relay

import (
	"net"
	"time"
)

// pump is one direction of a link, with its place in the stream and in the plan. It
// belongs to one goroutine.
type pump struct {
	link      *link
	direction Direction
	dst       *net.TCPConn

	asked   bool
	conn    Conn
	offset  int64 // of the next byte that is read
	planned Fault
	due     bool // whether planned is a fault to come
}

// chunk forwards what one read gave, and does the faults that it calls for.
func (p *pump) chunk(chunk []byte) {
	if !p.asked {
		p.asked = true
		p.conn = p.link.conn(p.direction, chunk)
		p.plan(0)
	}
	start, end := p.offset, p.offset+int64(len(chunk))
	p.offset = end
	forwarded := 0
	for p.due && p.planned.Offset < end && !p.link.swallows(p.direction) {
		f := p.planned
		if keep := f.keeps(start, len(chunk)); keep > forwarded {
			p.forward(chunk[forwarded:keep])
			forwarded = keep
		}
		if p.link.strike(f) && f.Kind == Delay {
			p.wait(f.For)
		}
		p.plan(max(f.Offset, start+int64(forwarded)-1) + 1)
	}
	p.forward(chunk[forwarded:])
}

func (p *pump) plan(from int64) {
	p.planned, p.due = p.link.relay.plan.Next(p.conn, p.direction, from)
	p.planned.Direction = p.direction
}

// forward writes, unless the direction is swallowed. A write that fails ends it: what
// the receiver said last is still to be read, so the end is left to the other pump.
func (p *pump) forward(b []byte) {
	if len(b) == 0 || p.link.swallows(p.direction) {
		return
	}
	if _, err := p.dst.Write(b); err != nil {
		p.link.refuse(p.direction)
	}
}

// wait holds the direction up, until the link is over at most.
func (p *pump) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.link.over:
	}
}
