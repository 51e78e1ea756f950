package wsock

import (
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

const (
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xA
)

// holdLimit is the most that is held back of one frame: a piece with its header.
const holdLimit = PieceSize + 14

// heldBuffers hold incomplete frames for as long as it takes to complete them: an idle
// connection keeps none.
var heldBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, holdLimit)
	return &b
}}

// lane stands between the WebSocket library and the network. It notes that bytes
// arrive, and it slips control frames in between the frames that the library
// writes, so that whoever wants one sent never waits for a write in progress.
type lane struct {
	rwc    io.ReadWriteCloser
	masked bool // this end is the client

	reads   atomic.Int64 // how often bytes arrived
	pending atomic.Bool  // a control frame waits to be written

	// writing is a lock held across network writes. It is a channel so that a
	// goroutine waiting for it is durably blocked in the sense of testing/synctest.
	writing chan struct{}
	out     frameTracker // guarded by writing
	held    *[]byte      // bytes of an incomplete frame not written yet, nil when none; guarded by writing

	mu       sync.Mutex // guards what follows, never held across I/O
	pong     []byte     // payload of the newest unanswered ping, nil when none
	ping     bool
	flushing bool
	closed   bool
	flushers sync.WaitGroup
}

func newLane(rwc io.ReadWriteCloser, client bool) *lane {
	return &lane{rwc: rwc, masked: client, writing: make(chan struct{}, 1)}
}

func (l *lane) Read(p []byte) (int, error) {
	n, err := l.rwc.Read(p)
	if n > 0 {
		l.reads.Add(1)
	}
	if errors.Is(err, io.EOF) {
		err = errEnded
	}
	return n, err
}

// errEnded stands for io.EOF, which the library takes for the end of a message when it
// meets it in the middle of one (coder/websocket, msgReader.Read).
var errEnded = errors.New("EOF")

// Write passes the library's bytes on, a whole frame in one system call where it can,
// and lets a waiting control frame in at the next frame boundary.
func (l *lane) Write(p []byte) (int, error) {
	l.writing <- struct{}{}
	defer func() { <-l.writing }()
	total := len(p)
	for len(p) > 0 {
		n := len(p)
		if l.pending.Load() {
			n = l.out.rest(p)
		}
		if err := l.pass(p[:n]); err != nil {
			return total - len(p), err
		}
		p = p[n:]
		if l.pending.Load() {
			if err := l.writePending(); err != nil {
				return total - len(p), err
			}
		}
	}
	return total, nil
}

// pass writes p, or holds it back while its frame is incomplete: the library hands
// over a frame in pieces of its small buffer.
func (l *lane) pass(p []byte) error {
	l.out.advance(p)
	if l.out.inFrame() && l.hold(p) {
		return nil
	}
	if l.held == nil {
		_, err := l.rwc.Write(p)
		return err
	}
	whole := append(*l.held, p...)
	_, err := l.rwc.Write(whole)
	*l.held = (*l.held)[:0]
	heldBuffers.Put(l.held)
	l.held = nil
	return err
}

// hold keeps p back if there is room for it.
func (l *lane) hold(p []byte) bool {
	if l.held == nil {
		if len(p) > holdLimit {
			return false
		}
		l.held, _ = heldBuffers.Get().(*[]byte)
	}
	if len(*l.held)+len(p) > holdLimit {
		return false
	}
	*l.held = append(*l.held, p...)
	return true
}

// Close closes the network connection and waits for the flusher to notice.
func (l *lane) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.rwc.Close()
	l.flushers.Wait()
	return err
}

// abort closes the network connection without waiting for anything.
func (l *lane) abort() { _ = l.rwc.Close() }

// sendPong answers a ping. Only the newest ping is answered when several wait
// (RFC 6455, 5.5.3). It never blocks.
func (l *lane) sendPong(payload []byte) {
	p := make([]byte, len(payload))
	copy(p, payload)
	l.queue(func() { l.pong = p })
}

// sendPing sends an empty ping. It never blocks.
func (l *lane) sendPing() { l.queue(func() { l.ping = true }) }

func (l *lane) queue(set func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	set()
	l.pending.Store(true)
	if l.flushing {
		return
	}
	l.flushing = true
	l.flushers.Go(l.flush)
}

// flush writes what waits unless the library is in the middle of a frame: then
// the Write that ends the frame does it.
func (l *lane) flush() {
	for {
		l.writing <- struct{}{}
		err := l.writePending()
		between := l.out.boundary()
		<-l.writing
		l.mu.Lock()
		if err != nil || l.closed || !between || !l.pending.Load() {
			l.flushing = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// writePending writes the waiting control frames; the caller holds writing.
func (l *lane) writePending() error {
	if !l.out.boundary() {
		return nil
	}
	l.mu.Lock()
	l.pending.Store(false)
	pong, ping := l.pong, l.ping
	l.pong, l.ping = nil, false
	l.mu.Unlock()

	var frames []byte
	if pong != nil {
		frames = l.appendControl(frames, opPong, pong)
	}
	if ping {
		frames = l.appendControl(frames, opPing, nil)
	}
	if frames == nil {
		return nil
	}
	_, err := l.rwc.Write(frames)
	return err
}

func (l *lane) appendControl(b []byte, op byte, payload []byte) []byte {
	b = append(b, 0x80|op)
	if !l.masked {
		b = append(b, byte(len(payload)))
		return append(b, payload...)
	}
	var key [4]byte
	rand.Read(key[:])
	b = append(b, 0x80|byte(len(payload)))
	b = append(b, key[:]...)
	for i, c := range payload {
		b = append(b, c^key[i%4])
	}
	return b
}

// frameTracker follows an outgoing byte stream from frame to frame.
type frameTracker struct {
	header  [14]byte
	have    int   // header bytes seen
	payload int64 // payload bytes still to come
	ended   bool  // a close frame went out: nothing may follow it
}

// inFrame reports whether a frame has begun and not ended.
func (t *frameTracker) inFrame() bool { return t.have > 0 || t.payload > 0 }

// boundary reports whether another frame may be put in here.
func (t *frameTracker) boundary() bool { return !t.inFrame() && !t.ended }

// rest is the number of bytes of p up to and including the end of the frame they
// begin or continue, or all of them.
func (t *frameTracker) rest(p []byte) int {
	probe := *t
	n := 0
	for n < len(p) {
		n += probe.consume(p[n:])
		if !probe.inFrame() {
			return n
		}
	}
	return n
}

func (t *frameTracker) advance(p []byte) {
	for len(p) > 0 {
		p = p[t.consume(p):]
	}
}

// consume takes in payload, or one byte of a header.
func (t *frameTracker) consume(p []byte) int {
	if t.payload > 0 {
		n := min(t.payload, int64(len(p)))
		t.payload -= n
		return int(n)
	}
	t.header[t.have] = p[0]
	t.have++
	if t.have >= 2 && t.have == t.headerLen() {
		t.payload = t.payloadLen()
		t.ended = t.ended || t.header[0]&0xF == opClose
		t.have = 0
	}
	return 1
}

func (t *frameTracker) headerLen() int {
	n := 2
	switch t.header[1] & 0x7F {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if t.header[1]&0x80 != 0 {
		n += 4
	}
	return n
}

func (t *frameTracker) payloadLen() int64 {
	var size int
	switch n := t.header[1] & 0x7F; n {
	case 126:
		size = 2
	case 127:
		size = 8
	default:
		return int64(n)
	}
	var v int64
	for _, b := range t.header[2 : 2+size] {
		v = v<<8 | int64(b)
	}
	return v
}
