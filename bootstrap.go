package openenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/provider"
)

// FromProvider makes a client whose server p starts, and connects it. On any failure
// what was started is stopped again and the original error returned.
func FromProvider[A, O, S any](ctx context.Context, spec Spec[A, O, S], p provider.Provider, opts ...Option) (*Client[A, O, S], error) {
	c, err := New(spec, "", append(slices.Clip(opts), WithProvider(p))...)
	if err != nil {
		return nil, err
	}
	if err := c.Connect(ctx); err != nil {
		return nil, join(err, c.Close())
	}
	return c, nil
}

// host is the server that a family of clients talks to, and the provider behind it.
type host struct {
	set        *settings
	root       *core // the client that New made; its Close ends the host
	ownsServer bool  // the provider starts the server and the address comes from it
	upgrades   *http.Client
	calls      *http.Client

	busy  chan struct{}  // lock held during each call to the provider, so that none overlap
	tasks sync.WaitGroup // starts and undone starts; they outlive the callers that wait for them

	mu       sync.Mutex // guards what follows, never held across I/O
	closed   bool
	boot     *boot // a start in progress
	started  bool  // Start was called and Stop has not succeeded since
	pending  bool  // a Stop failed
	gen      int   // number of starts
	replicas []*replica
	endpoint provider.Endpoint
	asked    time.Time          // when a Replicated provider was last asked
	placed   map[*core]*replica // who uses the server, and where; nil while it starts
}

// boot is a start of the provider that every caller of the family waits for.
type boot struct {
	done chan struct{}
	err  error
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
}

var errProviderBusy = errors.New("provider has not returned from an earlier call")

func newHost(baseURL string, set *settings) (*host, error) {
	h := &host{set: set, busy: make(chan struct{}, 1), placed: make(map[*core]*replica)}
	switch {
	case baseURL != "":
		base, err := netx.ParseBase(baseURL)
		if err != nil {
			return nil, err
		}
		h.replicas = []*replica{{base: base}}
		h.started = set.provider != nil // elsewhere; stopping it is ours
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
		base, ok := http.DefaultTransport.(*http.Transport)
		if !ok { // the program has put one of its own there
			base = &http.Transport{TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
		}
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
// no server yet. The start runs on the ctx of the family and serves every caller;
// ctx bounds this caller's wait.
func (h *host) resolve(ctx context.Context, c *core) (target, error) {
	h.refresh(ctx, c, false)
	for {
		at, b, err := h.locate(c)
		if err != nil || b == nil {
			return at, err
		}
		select {
		case <-b.done:
			if b.err != nil {
				return target{}, b.err
			}
		case <-ctx.Done():
			return target{}, ctxError(ctx)
		}
	}
}

// locate returns where c lives, or the start to wait for.
func (h *host) locate(c *core) (target, *boot, error) {
	base := h.root.sess.Base()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return target{}, nil, session.ErrClosed
	case len(h.replicas) > 0:
		return h.place(c), nil, nil
	}
	if _, ok := h.placed[c]; !ok {
		h.placed[c] = nil // it waits for the server, which must not be stopped under it
	}
	if h.boot == nil {
		h.boot = &boot{done: make(chan struct{})}
		h.gen++
		b := h.boot
		h.tasks.Go(func() { h.start(base, b) })
	}
	return target{}, h.boot, nil
}

// start starts the provider and waits until it is ready; ctx ends with the client.
func (h *host) start(ctx context.Context, b *boot) {
	defer close(b.done)
	h.busy <- struct{}{} // its holders are bounded
	defer func() { <-h.busy }()
	endpoint, replicas, err := h.launch(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	b.err = err
	h.boot = nil
	h.endpoint, h.replicas, h.asked = endpoint, replicas, time.Now()
}

// launch calls the provider; the caller holds busy. What a failed start leaves
// behind is stopped here, unless the client is being closed, which does it.
func (h *host) launch(ctx context.Context) (provider.Endpoint, []*replica, error) {
	if ctx.Err() != nil {
		return provider.Endpoint{}, nil, session.ErrClosed
	}
	if err := h.stopPending(); err != nil {
		return provider.Endpoint{}, nil, err
	}
	h.mu.Lock()
	h.started = true
	h.mu.Unlock()
	bounded := ctx
	if limit := h.set.startTimeout; limit > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within %v", limit))
		defer cancel()
	}
	endpoint, err := h.set.provider.Start(bounded)
	if err == nil {
		err = h.set.provider.WaitReady(bounded)
	}
	var replicas []*replica
	if err == nil {
		replicas, err = parseReplicas(endpoint)
	}
	switch {
	case ctx.Err() != nil:
		return provider.Endpoint{}, nil, session.ErrClosed
	case err == nil:
		return endpoint, replicas, nil
	}
	if cause := context.Cause(bounded); cause != nil && errors.Is(err, bounded.Err()) && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	err = fmt.Errorf("start: %w", err)
	return provider.Endpoint{}, nil, &ConnectError{Op: "start", URL: "provider", Err: join(err, h.stopLocked())}
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

// undo stops a server that was started since gen, when c's request has failed and
// nobody else of the family uses the server. It returns the request's error, joined
// with the stop's if that failed too; a caller whose ctx ends does not wait for it.
func (h *host) undo(ctx context.Context, c *core, gen int, err error) error {
	h.mu.Lock()
	fresh := h.ownsServer && h.started && h.gen != gen && !h.closed
	if fresh {
		h.forget(c)
		fresh = len(h.placed) == 0
	}
	stopped := make(chan error, 1)
	if fresh {
		h.tasks.Go(func() { stopped <- h.stop() })
	}
	h.mu.Unlock()
	if !fresh {
		return err
	}
	select {
	case stopErr := <-stopped:
		return join(err, stopErr)
	case <-ctx.Done():
	case <-c.sess.Base().Done(): // its Close waits for the stop
	}
	return err
}

// close stops the provider for good, or until reopen.
func (h *host) close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.calls.CloseIdleConnections()
	h.upgrades.CloseIdleConnections()
	err := h.stop()
	if !errors.Is(err, errProviderBusy) {
		h.tasks.Wait() // their client has closed: they end without starting anything
	}
	return err
}

func (h *host) reopen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = false
}

// stop stops the provider, bounded by the stop timeout and not by any caller's ctx,
// and forgets an address that came from it.
func (h *host) stop() error {
	if h.set.provider == nil {
		return nil
	}
	var expired <-chan time.Time
	if limit := h.set.stopTimeout; limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
		return h.stopLocked()
	case <-expired:
		return &cleanupError{errProviderBusy}
	}
}

// stopLocked is stop for a caller that holds busy.
func (h *host) stopLocked() error {
	h.mu.Lock()
	needed := h.started || h.pending
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
		return &cleanupError{err}
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
