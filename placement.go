package openenv

import (
	"context"
	"errors"
	"time"

	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/provider"
)

// endpointsFresh is how long the answer of a provider.Replicated is used.
const endpointsFresh = time.Second

// place returns where c's session lives, choosing the replica with the fewest
// sessions of this family for a new one. There is at least one; the caller holds mu.
func (h *host) place(c *core) target {
	r := h.placed[c]
	if r == nil {
		for _, candidate := range h.replicas {
			if r == nil || candidate.sessions < r.sessions {
				r = candidate
			}
		}
		h.put(c, r)
	}
	return target{base: r.base, headers: h.endpoint.Headers, keepalive: h.endpoint.Keepalive}
}

// put moves c to r; the caller holds mu.
func (h *host) put(c *core, r *replica) {
	if old := h.placed[c]; old != nil {
		old.sessions--
	}
	h.placed[c] = r
	r.sessions++
}

// several reports whether a session that is refused has another place to go to.
func (h *host) several() bool {
	if _, ok := h.set.provider.(provider.Replicated); ok && h.ownsServer {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.replicas) > 1
}

// reassign moves a session that a replica refused, or could not be reached for, to
// one that it has not tried, and reports whether there is one.
func (h *host) reassign(ctx context.Context, c *core, tried map[*replica]bool, err error) bool {
	if errors.Is(err, ErrGone) || !h.several() {
		return false
	}
	var refused *session.RefusedError
	var unreachable *ConnectError
	switch {
	case errors.As(err, &refused) && refused.Frame.Code == wire.CodeCapacityReached:
	case errors.As(err, &unreachable) && unreachable.Op == "connect":
	default:
		return false
	}
	h.refresh(ctx, c, true)
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.placed[c]; r != nil {
		tried[r] = true
	}
	var next *replica
	for _, r := range h.replicas {
		if !tried[r] && (next == nil || r.sessions < next.sessions) {
			next = r
		}
	}
	if next == nil {
		clear(tried) // a retry, if any is wanted, begins anew
		return false
	}
	h.put(c, next)
	return true
}

// release forgets where c lived.
func (h *host) release(c *core) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(c)
}

// forget is release for a caller that holds mu.
func (h *host) forget(c *core) {
	if r := h.placed[c]; r != nil {
		r.sessions--
	}
	delete(h.placed, c)
}

// refresh asks a provider whose replicas change for the present set: for a new
// session at most once a second, and after a refusal. Sessions stay where they are; a
// replica that is gone takes no new ones.
func (h *host) refresh(ctx context.Context, c *core, refused bool) {
	rep, ok := h.set.provider.(provider.Replicated)
	if !ok || !h.ownsServer {
		return
	}
	since := time.Now()
	if !h.stale(c, refused, since) {
		return
	}
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	case <-ctx.Done():
		return
	}
	if !h.stale(c, refused, since) {
		return // somebody has asked meanwhile
	}
	asked := time.Now()
	endpoint, err := rep.Endpoints(ctx)
	var fresh []*replica
	if err == nil {
		fresh, err = parseReplicas(endpoint)
	}
	h.mu.Lock()
	h.asked = asked
	if err == nil && len(h.replicas) > 0 {
		h.adopt(endpoint, fresh)
	}
	h.mu.Unlock()
	if err != nil {
		h.set.logger.Warn("asking the provider for its replicas failed", "err", err)
	}
}

// stale reports whether the provider is to be asked for its replicas.
func (h *host) stale(c *core, refused bool, since time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed || len(h.replicas) == 0:
		return false
	case refused:
		return !h.asked.After(since)
	}
	return h.placed[c] == nil && time.Since(h.asked) >= endpointsFresh
}

// adopt takes over a new set of replicas, keeping the known ones; the caller holds mu.
func (h *host) adopt(endpoint provider.Endpoint, fresh []*replica) {
	known := make(map[string]*replica, len(h.replicas))
	for _, r := range h.replicas {
		known[r.base.String()] = r
	}
	for i, r := range fresh {
		if old := known[r.base.String()]; old != nil {
			old.base = r.base // its query may have changed: a token, say
			fresh[i] = old
		}
	}
	h.endpoint, h.replicas = endpoint, fresh
}

// keepalive settles on ping interval and timeout: option, then advice, then default.
func (c *core) keepalive(at target) (interval, timeout time.Duration) {
	interval, timeout = DefaultPingInterval, DefaultPingTimeout
	if at.keepalive != nil {
		interval, timeout = at.keepalive.Interval, at.keepalive.Timeout
	}
	if c.set.pingInterval != nil {
		interval = *c.set.pingInterval
	}
	if c.set.pingTimeout != nil {
		timeout = *c.set.pingTimeout
	}
	return interval, timeout
}

// baseOf is where c lives, else where a first session would; nil without a server.
func (h *host) baseOf(c *core) *netx.Base {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.placed[c]; r != nil {
		return r.base
	}
	if len(h.replicas) == 0 {
		return nil
	}
	return h.replicas[0].base
}

// baseURL is the server's address, empty while there is none.
func (c *core) baseURL() string {
	if base := c.host.baseOf(c); base != nil {
		return base.String()
	}
	return ""
}

// socketURL is the socket's address for errors.
func (c *core) socketURL() string {
	if base := c.host.baseOf(c); base != nil {
		return base.SocketString()
	}
	return "provider"
}
