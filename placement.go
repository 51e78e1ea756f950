package openenv

import (
	"context"
	"time"

	"github.com/openenv-go/openenv/provider"
)

// endpointsFresh is how long the answer of a provider.Replicated is used.
const endpointsFresh = time.Second

// place returns where c's session lives, choosing the replica with the fewest
// sessions of this family for a new one. It reports false when there is no server.
func (h *host) place(c *core) (target, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.replicas) == 0 {
		return target{}, false
	}
	r := h.placed[c]
	if r == nil {
		for _, candidate := range h.replicas {
			if r == nil || candidate.sessions < r.sessions {
				r = candidate
			}
		}
		h.put(c, r)
	}
	return target{base: r.base, headers: h.endpoint.Headers, keepalive: h.endpoint.Keepalive}, true
}

// put moves c to r; the caller holds mu.
func (h *host) put(c *core, r *replica) {
	if old := h.placed[c]; old != nil {
		old.sessions--
	}
	h.placed[c] = r
	r.sessions++
}

// reassign moves a refused session to the next replica and reports whether there is
// one that it has not tried since it began with its first.
func (h *host) reassign(ctx context.Context, c *core) bool {
	h.mu.Lock()
	h.asked = time.Time{} // a refusal is a reason to ask again
	h.mu.Unlock()
	h.refresh(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	tried := h.tried[c]
	if tried == nil {
		tried = make(map[*replica]bool)
		h.tried[c] = tried
	}
	if r := h.placed[c]; r != nil {
		tried[r] = true
	}
	for _, r := range h.replicas {
		if !tried[r] {
			h.put(c, r)
			return true
		}
	}
	delete(h.tried, c)
	return false
}

// release forgets where c lived.
func (h *host) release(c *core) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.placed[c]; r != nil {
		r.sessions--
	}
	delete(h.placed, c)
	delete(h.tried, c)
}

// refresh asks a provider whose replicas change for the present set, at most once a
// second. Sessions stay where they are; a replica that is gone takes no new ones.
func (h *host) refresh(ctx context.Context) {
	rep, ok := h.set.provider.(provider.Replicated)
	if !ok || !h.ownsServer {
		return
	}
	h.mu.Lock()
	due := time.Since(h.asked) >= endpointsFresh
	if due {
		h.asked = time.Now()
	}
	h.mu.Unlock()
	if !due {
		return
	}
	endpoint, err := rep.Endpoints(ctx)
	if err != nil {
		h.set.logger.Warn("asking the provider for its replicas failed", "err", err)
		return
	}
	fresh, err := parseReplicas(endpoint)
	if err != nil {
		h.set.logger.Warn("the provider's replicas cannot be used", "err", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known := make(map[string]*replica, len(h.replicas))
	for _, r := range h.replicas {
		known[r.base.String()] = r
	}
	for i, r := range fresh {
		if old := known[r.base.String()]; old != nil {
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

// baseURL is the address that the family's first session has or would have.
func (h *host) baseURL() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.replicas) == 0 {
		return ""
	}
	return h.replicas[0].base.String()
}

// socketURL is the socket's address for errors.
func (h *host) socketURL() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.replicas) == 0 {
		return "provider"
	}
	return h.replicas[0].base.SocketString()
}
