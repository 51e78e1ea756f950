package envserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/openenv-go/openenv/internal/wire"
)

// capacityError is a server without a free slot.
type capacityError struct{ active, limit int }

func (e *capacityError) Error() string {
	return fmt.Sprintf("Server at capacity: %d/%d sessions active. Cannot accept new connections.", e.active, e.limit)
}

// factoryError is an environment that could not be built. What the build said is for
// the log: it may name what a client must not know.
type factoryError struct {
	name string
	err  error
}

func (e *factoryError) Error() string {
	return fmt.Sprintf("Environment factory '%s' failed to create instance.", e.name)
}
func (e *factoryError) Unwrap() error { return e.err }

// refusal is the error frame for a session that is not given.
func refusal(err error) wire.Error {
	var (
		full   *capacityError
		broken *factoryError
	)
	switch {
	case errors.As(err, &full):
		return wire.Error{Code: wire.CodeCapacityReached, Message: err.Error(), Details: refusalData(err)}
	case errors.As(err, &broken):
		return wire.Error{Code: wire.CodeFactory, Message: err.Error(), Details: refusalData(err)}
	}
	return wire.Error{Code: wire.CodeSession, Message: err.Error()}
}

// refusalData is what a refusal says beside its message, on every transport.
func refusalData(err error) map[string]any {
	var (
		full   *capacityError
		broken *factoryError
	)
	switch {
	case errors.As(err, &full):
		return map[string]any{"active_sessions": full.active, "max_sessions": full.limit}
	case errors.As(err, &broken):
		return map[string]any{"factory_name": broken.name}
	}
	return nil
}

// host takes a slot and builds an environment on it. Whatever goes wrong, the slot is
// free again. ctx bounds the build: an environment whose build was abandoned is closed
// once it is built. The session lives until base ends, at most.
func (s *Server) host(ctx, base context.Context, l *life) (*hosted, error) {
	used, ok := s.slots.take()
	if !ok {
		s.metrics.refused.Inc()
		return nil, &capacityError{used, s.slots.limit}
	}
	id := rand.Text()
	base, endSpan := s.startSpan(base, "session", id)
	h := s.newHosted(base, s.thread(l), nil)
	h.id, h.endSpan = id, endSpan
	h.release = func() { s.forget(h) }
	s.mu.Lock()
	s.open[h.id] = h
	s.mu.Unlock()
	err := h.build(ctx)
	switch {
	case ctx.Err() != nil: // nobody waits for it, whatever became of it
		h.end(context.Cause(ctx))
		return nil, context.Cause(ctx)
	case err != nil:
		s.logPanic(h.id, err)
		s.set.logger.Warn("building an environment failed", "session", h.id, "environment", s.kind.name, "err", err)
		h.end(err)
		return nil, &factoryError{s.kind.name, err}
	}
	return h, nil
}

// thread is where a new session's environment is to live.
func (s *Server) thread(l *life) *thread {
	switch {
	case s.set.sharedThread:
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.shared == nil {
			l.shared = startThread(false)
		}
		return l.shared
	case s.set.lockedThread:
		return startThread(true)
	}
	return nil
}

// forget removes a session whose environment is closed and frees its slot.
func (s *Server) forget(h *hosted) {
	s.mu.Lock()
	delete(s.open, h.id)
	s.mu.Unlock()
	s.slots.give()
}

// sessionError is an attachment that is refused, in the peer's words (http_server.py,
// websocket_endpoint).
type sessionError struct{ text string }

func (e *sessionError) Error() string { return e.text }

// attach puts a socket on a session that was made over HTTP. One with numbers takes the
// session over from one with numbers that came before it, and which may be a lost one
// whose end nobody has noticed yet.
func (s *Server) attach(id string, k *socket) (*hosted, error) {
	h := s.session(id)
	if h == nil {
		return nil, &sessionError{"Unknown session_id: " + id}
	}
	older, err := h.give(k)
	if err != nil {
		return nil, err
	}
	if older != nil {
		older.conn.Abort()
	}
	return h, nil
}

// give makes k the session's socket, in place of older, if it may.
func (h *hosted) give(k *socket) (older *socket, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	older = h.socket
	switch {
	case older != nil && !h.ended && !k.mayReplace(older):
		return nil, &sessionError{fmt.Sprintf("Session %s already has an attached WebSocket", h.id)}
	case h.ended || h.closing || h.expired:
		return nil, &sessionError{"Unknown session_id: " + h.id}
	}
	h.socket, h.everAttached = k, true
	h.stamp()
	if k.numbered && h.numbers == nil {
		h.numbers = newNumbers(h.srv.set.replyBuffer)
	}
	if older != nil {
		h.numbers.signal()
	}
	return older, nil
}

// mayReplace reports whether k may take a session over from older.
func (k *socket) mayReplace(older *socket) bool {
	return k.numbered && older.numbered && k.arrival > older.arrival
}

// session finds a session that was made over HTTP. That somebody asks for it is a sign
// of life.
func (s *Server) session(id string) *hosted {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.open[id]; h != nil && h.managed() {
		h.touch()
		return h
	}
	return nil
}

// manage makes the session one that outlives sockets.
func (h *hosted) manage() {
	h.mu.Lock()
	h.overHTTP = true
	h.mu.Unlock()
	h.watchSilence()
}

func (h *hosted) managed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.overHTTP
}

// unused reports whether nobody is talking to a session that was made over HTTP.
func (h *hosted) unused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.overHTTP && h.socket == nil && h.calls == 0
}

// detach takes a socket off again, unless another has taken the session over; a session
// that was to be closed is closed now.
func (h *hosted) detach(k *socket) {
	h.mu.Lock()
	k.finished = true
	if k.lost {
		h.orphans--
	}
	if h.socket != k {
		h.mu.Unlock()
		return
	}
	h.socket = nil
	closing, expired := h.closing, h.expired
	h.stamp()
	if !h.ended && !closing && !expired {
		h.arm()
	}
	h.mu.Unlock()
	switch {
	case expired:
		h.end(errIdle)
	case closing:
		h.end(errSessionEnded)
	}
}

// condemn refuses every other socket, because the session is to end, and reports whether
// that is k's to do: not when another socket has it.
func (h *hosted) condemn(k *socket) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.socket != k {
		return false
	}
	h.closing = true
	return true
}

func (s *Server) logPanic(id string, err error) {
	if p, ok := errors.AsType[*panicError](err); ok {
		s.set.logger.Error("environment panicked", "session", id, "environment", s.kind.name, "panic", p.value, "stack", string(p.stack))
	}
}
