package envserver

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
)

// watchAfter is how long a call may run before somebody listens for the client's end.
const watchAfter = 2 * time.Millisecond

// maxAhead bounds what is taken in while a call runs, in bytes; a message counts for
// perMessage more than it has. A client that sends more meets the network's back
// pressure: nothing is read then, and its end is noticed after the call only. Clients
// that pipeline keep below it.
const (
	maxAhead   = 18 << 20
	perMessage = 512
)

type message struct {
	buf    *bytes.Buffer
	text   []byte // the plain frame, in buf
	binary bool

	// Of a numbered frame only.
	id        uint64
	deadline  time.Time // zero without one
	calledOff bool      // by its client
	err       error     // why it is none
}

var errBinary = errors.New("binary frames are not part of the protocol")

// inbox reads a socket on the session's own goroutine as long as calls are quick: a
// step then costs no hand-over. When a call takes longer a second goroutine, the
// pump, reads ahead, so that pings are answered and the client's end is noticed.
type inbox struct {
	sock    *wsock.Conn
	gone    func(error)     // called once, when the pump meets the end of the socket
	seen    func([]byte)    // called by the pump with each message, before anyone takes it; may be nil
	callOff func(id uint64) // called for a request that is called off and is not in ahead; nil: frames have no numbers

	mu      sync.Mutex
	timer   *time.Timer
	armed   bool // timer is running
	busy    bool // a call is running
	began   time.Time
	pumping bool
	ahead   []message
	bytes   int // in ahead
	err     error
	wake    chan struct{} // capacity 1: something changed
	pump    sync.WaitGroup
}

func newInbox(sock *wsock.Conn, gone func(error)) *inbox {
	return &inbox{sock: sock, gone: gone, wake: make(chan struct{}, 1)}
}

// next returns the next message or the end of the socket.
func (in *inbox) next() (message, error) {
	for {
		in.mu.Lock()
		switch {
		case len(in.ahead) > 0:
			msg := in.ahead[0]
			in.ahead = in.ahead[1:]
			in.bytes -= msg.buf.Len() + perMessage
			in.mu.Unlock()
			return msg, nil
		case in.err != nil:
			in.mu.Unlock()
			return message{}, in.err
		case !in.pumping:
			in.mu.Unlock()
			buf, binary, err := in.sock.Read(wire.GetBuffer)
			if err != nil {
				return message{}, err
			}
			if msg, ok := in.open(buf, binary); ok {
				return msg, nil
			}
			continue
		}
		in.mu.Unlock()
		<-in.wake
	}
}

// open reads the envelope of a frame that has a number. It reports false for a frame that
// calls another one off: that is done at once.
func (in *inbox) open(buf *bytes.Buffer, binary bool) (msg message, ok bool) {
	msg = message{buf: buf, text: buf.Bytes(), binary: binary}
	switch {
	case in.callOff == nil:
		return msg, true
	case binary:
		msg.err = errBinary
		return msg, true
	}
	var ms int64
	msg.text, msg.id, ms, msg.err = wire.ParseNumbered(buf.Bytes())
	switch {
	case msg.err != nil:
	case bytes.Equal(msg.text, wire.CancelRequest):
		if !in.callOffAhead(msg.id) {
			in.callOff(msg.id)
		}
		wire.PutBuffer(buf)
		return message{}, false
	case ms != wire.NoTime:
		msg.deadline = time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	return msg, true
}

// callOffAhead marks a request that was read ahead, if it is there.
func (in *inbox) callOffAhead(id uint64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range in.ahead {
		if in.ahead[i].id == id {
			in.ahead[i].calledOff = true
			return true
		}
	}
	return false
}

// watch says that a call begins, unwatch that it has ended. The timer is not stopped
// between quick calls: setting one that is due soon wakes the thread that waits for the
// network, which would cost more than the call.
func (in *inbox) watch() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy, in.began = true, time.Now()
	if !in.pumping && !in.armed {
		in.arm(watchAfter)
	}
}

func (in *inbox) unwatch() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy = false
}

// arm sets the timer; the caller holds mu.
func (in *inbox) arm(d time.Duration) {
	in.armed = true
	if in.timer == nil {
		in.timer = time.AfterFunc(d, in.startPump)
		return
	}
	in.timer.Reset(d)
}

// startPump runs when the timer is due, which may be that of an earlier call.
func (in *inbox) startPump() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.armed = false
	if !in.busy || in.pumping || in.err != nil || !in.room() {
		return
	}
	if left := watchAfter - time.Since(in.began); left > 0 {
		in.arm(left)
		return
	}
	in.pumping = true
	in.pump.Go(in.run)
}

// run is the pump. It ends with the socket, or hands reading back after a message
// that came while no call was running, or that left no room to read ahead.
func (in *inbox) run() {
	for {
		buf, binary, err := in.sock.Read(wire.GetBuffer)
		var msg message
		taken := false
		if err == nil {
			msg, taken = in.open(buf, binary)
		}
		in.mu.Lock()
		if err != nil {
			in.err = err
			in.pumping = false
			in.mu.Unlock()
			in.gone(err)
			in.signal()
			return
		}
		if taken && in.seen != nil {
			in.seen(buf.Bytes())
		}
		if taken {
			in.ahead = append(in.ahead, msg)
			in.bytes += buf.Len() + perMessage
		}
		in.pumping = in.busy && in.room()
		stop := !in.pumping
		in.mu.Unlock()
		in.signal()
		if stop {
			return
		}
	}
}

// room reports whether another message may be read ahead; the caller holds mu.
func (in *inbox) room() bool { return in.bytes < maxAhead }

func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// wait returns when the pump has ended, after the socket was closed.
func (in *inbox) wait() {
	in.mu.Lock()
	if in.timer != nil {
		in.timer.Stop()
	}
	in.err = errSessionEnded
	in.mu.Unlock()
	in.pump.Wait()
}
