package envserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
)

// Close codes of the session socket.
const (
	closeNormal   = 1000
	closeAway     = 1001
	closeInternal = 1011
)

const shuttingDown = "server is shutting down"

// lastReply is how long the answer to a cancelled call may take to reach the client
// when the server ends.
const lastReply = time.Second

// What a socket is doing. Whoever wants to close a resting one retires it first, so
// that a message is either answered or was never looked at.
const (
	answering int32 = iota // from a message's arrival to the reply's end; while a session is made, too
	resting
	retired
)

// socket is one client connection on a goroutine of its own.
type socket struct {
	srv   *Server
	life  *life
	conn  *wsock.Conn
	inbox *inbox
	state atomic.Int32
	ctx   context.Context // ends when the client leaves
	leave context.CancelCauseFunc
	over  chan struct{} // closed when play has returned
	buf   *bytes.Buffer // the reply in the making; an idle session has none
	lead  int           // where the plain frame begins in buf

	h     *hosted
	owned bool // the session ends with this socket

	arrival   uint64             // its place in the order in which sockets came
	numbered  bool               // it speaks openenv.session.v1
	calling   context.Context    // of the numbered request in progress, nil when there is none
	stopClock context.CancelFunc // of its deadline, nil when it has none

	lost     bool // its client is gone; guarded by hosted.mu
	finished bool // it is off its session; guarded by hosted.mu
}

// upgrade accepts a socket and plays it until play returns how to close it. It does so on
// another goroutine than the request's, whose stack and request an idle session need not
// keep in memory.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, play func(*socket) (code int, reason string), subprotocols ...string) {
	l, ok := s.enter()
	if !ok {
		writeDetail(w, http.StatusServiceUnavailable, ErrServerClosed.Error())
		return
	}
	arrival := s.arrivals.Add(1) // before the client hears of it, who may then open another one
	conn, err := wsock.Accept(w, r, wsock.AcceptOptions{Origins: s.set.origins, Subprotocols: subprotocols}, wsock.Options{
		ReadLimit:    s.set.maxMessage,
		PingInterval: s.set.pingInterval,
		PongTimeout:  s.set.pingTimeout,
		CloseTimeout: s.set.closeTimeout,
		WriteTimeout: s.set.writeTimeout,
	})
	if err != nil {
		s.set.logger.Debug("upgrade refused", "err", err)
		l.running.Done()
		return
	}
	k := &socket{srv: s, life: l, conn: conn, arrival: arrival, over: make(chan struct{})}
	k.ctx, k.leave = context.WithCancelCause(l.base)
	k.inbox = newInbox(conn, func(err error) { k.leave(fmt.Errorf("client left: %w", err)) })
	if conn.Subprotocol() == wire.SessionV1 {
		k.numbered, k.inbox.callOff = true, k.callOff
	}
	go k.live(play)
}

// live is the socket's goroutine.
func (k *socket) live(play func(*socket) (code int, reason string)) {
	defer k.life.running.Done()
	var drains sync.WaitGroup
	drains.Add(1)
	stop := context.AfterFunc(k.life.draining, func() { defer drains.Done(); k.drain() })
	code, reason := closeInternal, "internal error"
	defer func() { // when the environment's code ends this goroutine, too
		if p := recover(); p != nil { // of this package: those of environments are contained
			k.srv.set.logger.Error("session panicked", "panic", p, "stack", string(debug.Stack()))
		}
		close(k.over)
		if stop() {
			drains.Done()
		}
		k.leave(errSessionEnded)
		_ = k.conn.Close(code, reason) // the client may have left already
		k.inbox.wait()
		drains.Wait()
	}()
	code, reason = play(k)
}

// retire closes the socket unless a message is being answered, and reports whether it
// did.
func (k *socket) retire(code int, reason string) bool {
	if !k.state.CompareAndSwap(resting, retired) {
		return false
	}
	_ = k.conn.Close(code, reason) // the client may have left already
	return true
}

// drain closes the socket of a session that nothing is asked of, when the server shuts
// down. A busy one closes after its reply; it has to be quick about that once calls are
// cancelled.
func (k *socket) drain() {
	if k.retire(closeAway, shuttingDown) {
		return
	}
	select {
	case <-k.over:
		return
	case <-k.life.base.Done():
	}
	late := time.NewTimer(lastReply)
	defer late.Stop()
	select {
	case <-k.over:
	case <-late.C:
		k.conn.Abort()
	}
}

// serveSession is GET /ws: a session of its own, or with ?session_id= one made over
// HTTP.
func (s *Server) serveSession(w http.ResponseWriter, r *http.Request) {
	if !isUpgrade(r) {
		writeDetail(w, http.StatusNotFound, "Not Found") // as the peer does
		return
	}
	id := r.URL.Query().Get("session_id")
	var subprotocols []string
	if id != "" { // a session that ends with its socket has nothing to ask for again
		subprotocols = []string{wire.SessionV1}
	}
	s.upgrade(w, r, func(k *socket) (int, string) {
		if err := k.begin(id); err != nil {
			return k.refuse(func() { k.fail(refusal(err)) })
		}
		defer k.finish()
		if k.numbered {
			return k.serve(k.answerNumbered)
		}
		return k.serve(k.answer)
	}, subprotocols...)
}

func isUpgrade(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// begin attaches to a session or makes one, watching for the client to leave.
func (k *socket) begin(id string) (err error) {
	if id != "" {
		if k.h, err = k.srv.attach(id, k); err != nil {
			return err
		}
		k.inbox.gone = func(err error) {
			k.leave(fmt.Errorf("client left: %w", err))
			k.h.lose(k)
		}
		return nil
	}
	k.owned = true
	k.inbox.watch()
	defer k.inbox.unwatch()
	if k.h, err = k.srv.host(k.ctx, k.ctx, k.life); err != nil {
		return err
	}
	k.h.mu.Lock()
	k.h.socket = k
	k.h.mu.Unlock()
	k.h.watchSilence()
	return nil
}

// refuse writes what say leaves in buf; the socket is closed next in any case.
func (k *socket) refuse(say func()) (code int, reason string) {
	k.buf = wire.GetBuffer()
	defer wire.PutBuffer(k.buf)
	say()
	_ = k.write()
	return closeNormal, ""
}

func (k *socket) finish() {
	if k.owned {
		cause := context.Cause(k.h.ctx)
		if cause == nil {
			cause = errSessionEnded
		}
		k.h.end(cause)
		return
	}
	k.h.detach(k)
}

// serve answers one message after the other with what answer leaves in buf.
func (k *socket) serve(answer func(message) (end bool, err error)) (code int, reason string) {
	first := k.firstMessage()
	for {
		k.state.Store(resting)
		if k.life.draining.Err() != nil && k.state.CompareAndSwap(resting, retired) {
			return closeAway, shuttingDown
		}
		msg, err := k.inbox.next()
		if first != nil {
			first.Stop()
			first = nil
		}
		if err != nil {
			k.leave(fmt.Errorf("client left: %w", err))
			return closeNormal, ""
		}
		if !k.state.CompareAndSwap(resting, answering) {
			return closeAway, "" // who retired the socket closes it, for a reason
		}
		end, err := k.reply(msg, answer)
		switch {
		case end:
			return closeNormal, ""
		case errors.Is(err, errPanicked):
			k.owned = k.h.condemn(k) // nobody is to attach to what is left of the environment
			return closeInternal, errPanicked.Error()
		}
	}
}

// reply answers one message. The buffers of both go back to their pool.
func (k *socket) reply(msg message, answer func(message) (end bool, err error)) (end bool, err error) {
	k.srv.metrics.received.Add(float64(msg.buf.Len()))
	k.buf, k.lead = wire.GetBuffer(), 0
	end, err = answer(msg)
	wire.PutBuffer(msg.buf)
	if !end && k.buf.Len() > 0 && k.write() != nil {
		end = true // the client has left
	}
	wire.PutBuffer(k.buf)
	k.buf = nil
	return end, err
}

// firstMessage closes the socket of a client that connects and says nothing.
func (k *socket) firstMessage() *time.Timer {
	limit := k.srv.set.firstMessage
	if limit == 0 {
		return nil
	}
	return time.AfterFunc(limit, func() { k.retire(closeAway, "no first message in time") })
}

// do makes a call on the session's environment on behalf of this socket. A session
// that outlives its sockets does not end its call with one.
func (k *socket) do(c call) error {
	k.inbox.watch()
	defer k.inbox.unwatch()
	return k.h.do(k.callCtx(), c)
}

// callCtx is for calls on behalf of the message that is being answered.
func (k *socket) callCtx() context.Context {
	if k.calling != nil {
		return k.calling
	}
	return k.h.ctx
}

func (k *socket) fail(e wire.Error) {
	k.srv.metrics.failed(e.Code)
	k.buf.Truncate(k.lead)
	if err := wire.AppendError(k.buf, e); err != nil {
		k.buf.Truncate(k.lead)
		_ = wire.AppendError(k.buf, wire.Error{Code: e.Code, Message: "error details cannot be encoded: " + err.Error()})
	}
}

func (k *socket) write() error {
	k.srv.metrics.sent.Add(float64(k.buf.Len()))
	return k.conn.Write(context.Background(), k.buf.Bytes())
}
