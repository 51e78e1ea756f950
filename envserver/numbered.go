package envserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/openenv-go/openenv/internal/wire"
)

// The dialogue of docs/session-v1.md: requests come with numbers, each is begun at most
// once in its session, whatever becomes of sockets, and its reply can be asked for again.

var (
	errCalledOff = errors.New("call was cancelled by its client")
	errTimeOver  = errors.New("deadline of the call exceeded")
)

// WithReplyBuffer is how many bytes of the replies that it has sent a session keeps for
// a client that lost its socket and asks again. It is spent by clients that speak
// openenv.session.v1 only. A larger reply is remembered as applied, without its text.
// Default 1 MiB, 0 keeps none.
func WithReplyBuffer(bytes int) Option {
	return optionFunc(func(s *settings) error {
		if bytes < 0 {
			return fmt.Errorf("WithReplyBuffer: negative size %d", bytes)
		}
		s.replyBuffer = bytes
		return nil
	})
}

// numbers is what a session knows of its numbered requests. It is guarded by hosted.mu.
type numbers struct {
	begun   spans
	kept    replies
	running uint64 // the request in progress, whose socket may be lost; 0 is none
	cancel  context.CancelCauseFunc
	early   uint64        // called off by its client before it was begun
	changed chan struct{} // closed with the next change; nil when nobody waits
}

func newNumbers(bytes int) *numbers { return &numbers{kept: replies{limit: bytes}} }

// signal wakes who waits for the request in progress.
func (n *numbers) signal() {
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

func (n *numbers) change() <-chan struct{} {
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

// verdict is what becomes of a numbered request.
type verdict int

const (
	dropped  verdict = iota // its socket is not the session's any more
	begun                   // it is the request in progress, until settle
	answered                // its reply was kept
	applied                 // it was begun before, its reply is not kept
	stale                   // a greater number was begun, this one never
	ancient                 // it is too old to tell
)

// Frames that begin like this are harmless when they are repeated.
var (
	stateFrame = []byte(`{"type":"state"`)
	closeFrame = []byte(`{"type":"close"`)
)

// answerNumbered leaves the reply to one numbered frame in buf, with its number.
func (k *socket) answerNumbered(msg message) (end bool, err error) {
	if msg.err != nil {
		k.h.touch()
		k.fail(wire.Error{Code: wire.CodeInvalidJSON, Message: "Invalid message: " + msg.err.Error()})
		return false, nil
	}
	k.inbox.watch()
	defer k.inbox.unwatch()
	switch k.claim(msg) {
	case dropped:
		return true, nil
	case begun:
		k.number(msg.id)
		return k.carryOut(msg)
	case answered:
		return false, k.h.brokenBy(msg.id)
	case applied:
		k.turnDown(msg.id, wire.CodeReplyLost, "applied, and its reply is not kept any more")
	case stale:
		k.turnDown(msg.id, wire.CodeStale, "not applied: a later request came first")
	case ancient:
		k.turnDown(msg.id, wire.CodeExecution, "request is too old to tell whether it was applied")
	}
	return false, nil
}

func (k *socket) turnDown(id uint64, code, message string) {
	k.number(id)
	k.fail(wire.Error{Code: code, Message: message})
	k.seal()
}

// number begins a frame with its number. The plain frame is written behind it; seal puts
// a comma in place of its brace.
func (k *socket) number(id uint64) {
	prefix := wire.AppendNumber(k.buf.AvailableBuffer(), id, wire.NoTime)
	k.buf.Write(prefix[:len(prefix)-1])
	k.lead = k.buf.Len()
}

func (k *socket) seal() { k.buf.Bytes()[k.lead] = ',' }

// claim decides what becomes of a request, once none is in progress. It does so under
// one lock: a request that is begun came on the session's socket and was never begun
// before.
func (k *socket) claim(msg message) verdict {
	h := k.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stamp()
	for h.socket == k && h.numbers.running != 0 { // for a socket that was lost
		changed := h.numbers.change()
		h.mu.Unlock()
		select {
		case <-changed:
		case <-k.ctx.Done(): // the client has left
		}
		h.mu.Lock()
		if k.ctx.Err() != nil {
			return dropped
		}
	}
	if h.socket != k || h.ended {
		return dropped
	}
	v := h.numbers.judge(msg.id, msg.text, k.buf)
	if v == begun {
		k.start(msg)
	}
	return v
}

// judge takes a request in, or says why it is not to be begun. The reply to one that was
// answered before is left in buf.
func (n *numbers) judge(id uint64, frame []byte, buf *bytes.Buffer) verdict {
	state := bytes.HasPrefix(frame, stateFrame)
	greatest := n.begun.greatest()
	switch {
	case n.begun.has(id):
		if n.kept.find(id, buf) {
			return answered
		}
		if state || bytes.HasPrefix(frame, closeFrame) {
			return begun
		}
		return applied
	case id > greatest:
		n.begun.add(id)
		return begun
	case state:
		return begun
	case id <= n.begun.floor:
		return ancient
	}
	return stale
}

// start makes a request the one in progress, with a ctx of its own; the caller holds
// the session's mu.
func (k *socket) start(msg message) {
	n := k.h.numbers
	ctx, cancel := context.WithCancelCause(k.h.ctx)
	k.calling, n.running, n.cancel = ctx, msg.id, cancel
	if msg.calledOff || n.early == msg.id {
		cancel(errCalledOff)
	}
	if !msg.deadline.IsZero() {
		k.calling, k.stopClock = context.WithDeadlineCause(ctx, msg.deadline, errTimeOver)
	}
}

// carryOut performs the request in progress and keeps its reply, if it was answered.
func (k *socket) carryOut(msg message) (end bool, err error) {
	keep := false
	defer func() { k.settle(msg.id, keep, err) }() // when the environment's code ends this goroutine, too
	if end, err = k.answer(msg); end {
		k.owned = k.h.condemn(k)
		return true, nil
	}
	k.seal()
	keep = !bytes.HasPrefix(msg.text, stateFrame)
	return false, err
}

// settle ends the request in progress.
func (k *socket) settle(id uint64, keep bool, failed error) {
	h := k.h
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.numbers
	if keep {
		n.kept.keep(id, k.buf.Bytes())
	}
	if errors.Is(failed, errPanicked) {
		h.broken = failed // for a socket that took the session over meanwhile
	}
	if k.stopClock != nil {
		k.stopClock()
		k.stopClock = nil
	}
	n.cancel(nil)
	k.calling, n.running, n.cancel = nil, 0, nil
	n.signal()
}

// brokenBy returns the panic of the request with that number, when it was the last.
func (h *hosted) brokenBy(id uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.numbers.begun.greatest() != id {
		return nil
	}
	return h.broken
}

// callOff ends the ctx of a request, or that of the one in hand when it is begun. The
// inbox has seen to those that wait there.
func (k *socket) callOff(id uint64) {
	h := k.h
	h.mu.Lock()
	defer h.mu.Unlock()
	switch n := h.numbers; {
	case h.socket != k: // the session is another's
	case n.running == id:
		n.cancel(errCalledOff)
	case id > n.begun.greatest():
		n.early = id
	}
}

// calledOff returns why the client does not want the call in progress any more, or nil.
func (k *socket) calledOff() error {
	if k.calling == nil {
		return nil
	}
	if cause := context.Cause(k.calling); errors.Is(cause, errCalledOff) || errors.Is(cause, errTimeOver) {
		return cause
	}
	return nil
}
