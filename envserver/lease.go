package envserver

import (
	"errors"
	"math"
	"time"
)

// Two rules end a session whose client is silent: the idle limit, whoever holds the
// session, and the lease of one that was made over HTTP, while no socket is on it.

var (
	errIdle  = errors.New("session was idle for too long")
	errLease = errors.New("client did not come back within the lease")
)

// neverAttached is by how much the lease of a session that never had a socket is longer:
// its client shows itself by calls alone.
const neverAttached = 5

// WithLease is how long a session that was made over HTTP waits for its client without
// a socket: counted from the end of its socket, or from the last call on it over HTTP,
// if that is later. Then a call that is still running for the lost socket is cancelled,
// the environment is closed and the slot is free. A session that never had a socket
// waits five times as long. Default 2 minutes, 0 for ever, as the Python server.
func WithLease(d time.Duration) Option {
	return duration("WithLease", d, func(s *settings) { s.lease = d })
}

// touch notes that the client asked for something that is not a call.
func (h *hosted) touch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stamp()
}

// stamp notes a sign of life; the caller holds mu. The timer is left alone: it looks at
// the stamp when it fires.
func (h *hosted) stamp() {
	if h.alarm != nil {
		h.active = time.Now()
	}
}

// watchSilence begins to watch for the limits of the session.
func (h *hosted) watchSilence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	h.active = time.Now()
	h.arm()
}

// arm sets the timer by the limits that hold now, if any; the caller holds mu.
func (h *hosted) arm() {
	left, cause := h.patience()
	switch {
	case cause == nil:
	case h.alarm == nil:
		h.alarm = time.AfterFunc(left, h.checkSilence)
	default:
		h.alarm.Reset(left)
	}
}

// patience is how long the session may stay silent yet and why it ends then; without a
// limit the cause is nil. The caller holds mu.
func (h *hosted) patience() (left time.Duration, cause error) {
	silent := time.Since(h.active)
	if limit := h.srv.set.idleTimeout; limit > 0 {
		left, cause = limit-silent, errIdle
		if h.calls > 0 {
			left = limit
		}
	}
	lease := h.srv.set.lease
	if lease == 0 || !h.overHTTP || h.socket != nil && !h.socket.lost {
		return left, cause
	}
	if !h.everAttached {
		lease = min(lease, math.MaxInt64/neverAttached) * neverAttached
	}
	due := lease - silent
	if h.calls > h.orphans { // over HTTP
		due = lease
	}
	if cause == nil || due < left {
		return due, errLease
	}
	return left, cause
}

// checkSilence runs when the timer is due, which may be that of an earlier time.
func (h *hosted) checkSilence() {
	h.mu.Lock()
	left, cause := h.patience()
	if h.ended || cause == nil || left > 0 {
		if !h.ended {
			h.arm()
		}
		h.mu.Unlock()
		return
	}
	k := h.socket
	h.expired = true // nobody is to attach from now on
	h.mu.Unlock()
	switch {
	case errors.Is(cause, errLease):
		h.srv.metrics.expired.Inc()
		h.srv.set.logger.Info("lease expired", "session", h.id, "environment", h.srv.kind.name)
		h.end(errLease)
	case k == nil:
		h.end(errIdle)
	case !k.retire(closeAway, errIdle.Error()): // a message has come in at this moment
		h.mu.Lock()
		h.expired = false
		h.alarm.Reset(h.srv.set.idleTimeout)
		h.mu.Unlock()
	}
}

// lose notes that the client of a socket is gone while its call may still be running:
// the lease counts from here.
func (h *hosted) lose(k *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.lost || k.finished || h.ended {
		return
	}
	k.lost = true
	h.orphans++
	h.stamp()
	h.arm()
}
