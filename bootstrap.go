package openenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/provider"
)

// FromProvider makes a client whose server p starts, and connects it. On any failure
// what was started is stopped again and the original error returned.
func FromProvider[A, O, S any](ctx context.Context, spec Spec[A, O, S], p provider.Provider, opts ...Option) (*Client[A, O, S], error) {
	c, err := New(spec, "", append(opts[:len(opts):len(opts)], WithProvider(p))...)
	if err != nil {
		return nil, err
	}
	if err := c.Connect(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// host is the server that a family of clients talks to, and the provider behind it.
type host struct {
	set        *settings
	ownsServer bool // the provider starts the server and the address comes from it
	upgrades   *http.Client
	calls      *http.Client

	starting chan struct{} // lock held while the provider starts or stops

	mu       sync.Mutex // guards what follows, never held across I/O
	started  bool       // Start was called and Stop has not succeeded since
	pending  bool       // a Stop failed
	gen      int        // number of starts
	replicas []*replica
	endpoint provider.Endpoint
	asked    time.Time // when a Replicated provider was last asked
	placed   map[*core]*replica
	tried    map[*core]map[*replica]bool // replicas that refused a session in this attempt
}

// replica is one address of a server.
type replica struct {
	base     *netx.Base
	sessions int
}

// target is where one request goes.
type target struct {
	base      *netx.Base
	headers   http.Header
	keepalive *provider.Keepalive
	fresh     bool // the server was started for this request
}

func newHost(baseURL string, set *settings) (*host, error) {
	h := &host{set: set, starting: make(chan struct{}, 1), placed: make(map[*core]*replica), tried: make(map[*core]map[*replica]bool)}
	switch {
	case baseURL != "":
		base, err := netx.ParseBase(baseURL)
		if err != nil {
			return nil, err
		}
		h.replicas = []*replica{{base: base}}
	case set.provider == nil:
		return nil, errors.New("neither a base URL nor WithProvider was given")
	default:
		h.ownsServer = true
	}
	h.upgrades, h.calls = httpClients(set)
	return h, nil
}

// httpClients makes the two HTTP clients of a family, under one proxy policy.
func httpClients(set *settings) (upgrades, calls *http.Client) {
	policy := netx.ProxyFunc(set.proxy)
	if policy == nil {
		policy = netx.ProxyFromEnvironment()
	}
	custom := set.httpClient
	if custom == nil {
		custom = &http.Client{}
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	upgrades = &http.Client{Jar: custom.Jar}
	calls = &http.Client{Jar: custom.Jar, Timeout: custom.Timeout, CheckRedirect: noRedirects}
	switch t := custom.Transport.(type) {
	case nil:
		base := http.DefaultTransport.(*http.Transport)
		upgrades.Transport, calls.Transport = netx.UpgradeTransport(base, policy), netx.HTTPTransport(base, policy)
	case *http.Transport:
		if set.proxy == nil && t.Proxy == nil && t.DialContext != nil {
			policy = NoProxy // a transport with a network of its own
		}
		upgrades.Transport, calls.Transport = netx.UpgradeTransport(t, policy), netx.HTTPTransport(t, policy)
	default:
		upgrades.Transport, calls.Transport = t, t
	}
	return upgrades, calls
}

// resolve returns where c's next request goes, starting the provider when there is
// no server yet. ctx is the client's: a start serves every caller.
func (h *host) resolve(ctx context.Context, c *core) (target, error) {
	if at, ok := h.place(c); ok {
		h.refresh(ctx)
		return at, nil
	}
	select {
	case h.starting <- struct{}{}:
		defer func() { <-h.starting }()
	case <-ctx.Done():
		return target{}, context.Cause(ctx)
	}
	if at, ok := h.place(c); ok {
		return at, nil
	}
	if err := h.stopPending(); err != nil {
		return target{}, err
	}
	if err := h.start(ctx); err != nil {
		return target{}, err
	}
	at, _ := h.place(c)
	at.fresh = true
	return at, nil
}

// start starts the provider and waits until it is ready; the caller holds starting.
func (h *host) start(ctx context.Context) error {
	if limit := h.set.startTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within %v", limit))
		defer cancel()
	}
	h.mu.Lock()
	h.started = true
	h.gen++
	h.mu.Unlock()
	endpoint, err := h.set.provider.Start(ctx)
	if err == nil {
		err = h.set.provider.WaitReady(ctx)
	}
	var replicas []*replica
	if err == nil {
		replicas, err = parseReplicas(endpoint)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return errors.Join(&ConnectError{Op: "start", URL: "provider", Err: err}, h.stopLocked())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endpoint, h.replicas, h.asked = endpoint, replicas, time.Now()
	return nil
}

func parseReplicas(e provider.Endpoint) ([]*replica, error) {
	if len(e.URLs) == 0 {
		return nil, errors.New("provider returned no URL")
	}
	var replicas []*replica
	for _, raw := range e.URLs {
		base, err := netx.ParseBase(raw)
		if err != nil {
			return nil, fmt.Errorf("provider returned a bad address: %w", err)
		}
		replicas = append(replicas, &replica{base: base})
	}
	return replicas, nil
}

// undo stops a server that was started for a request which then failed, and returns
// the request's error, joined with the stop's if that failed too.
func (h *host) undo(err error) error {
	return errors.Join(err, h.stop())
}

// stop stops the provider, bounded by the stop timeout and not by any caller's ctx,
// and forgets an address that came from it.
func (h *host) stop() error {
	h.calls.CloseIdleConnections()
	if h.set.provider == nil {
		return nil
	}
	h.starting <- struct{}{}
	defer func() { <-h.starting }()
	return h.stopLocked()
}

// stopLocked is stop for a caller that holds starting.
func (h *host) stopLocked() error {
	h.mu.Lock()
	needed := h.started || h.pending || !h.ownsServer
	if h.ownsServer {
		h.replicas, h.endpoint = nil, provider.Endpoint{}
		clear(h.placed)
	}
	h.mu.Unlock()
	if !needed {
		return nil
	}
	ctx := context.Background()
	if limit := h.set.stopTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not stopped within %v", limit))
		defer cancel()
	}
	err := h.set.provider.Stop(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = false
	h.pending = err != nil
	if err != nil {
		return fmt.Errorf("stop provider: %w: %w", ErrCleanupPending, err)
	}
	return nil
}

// stopPending repeats a stop that failed before anything is started over it.
func (h *host) stopPending() error {
	h.mu.Lock()
	pending := h.pending
	h.mu.Unlock()
	if !pending {
		return nil
	}
	return h.stopLocked()
}

// generation counts the starts of the provider.
func (h *host) generation() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gen
}
