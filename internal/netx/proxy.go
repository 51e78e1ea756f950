package netx

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/net/http/httpproxy"
)

// ProxyFunc chooses the proxy of a request, nil for none.
type ProxyFunc func(*http.Request) (*url.URL, error)

// ProxyFromEnvironment reads HTTP_PROXY, HTTPS_PROXY and NO_PROXY now, once, and
// returns the policy they make. This machine is never reached through a proxy.
func ProxyFromEnvironment() ProxyFunc {
	choose := httpproxy.FromEnvironment().ProxyFunc()
	return func(r *http.Request) (*url.URL, error) {
		if IsLoopback(r.URL.Hostname()) {
			return nil, nil
		}
		u := *r.URL
		switch u.Scheme {
		case "ws":
			u.Scheme = "http"
		case "wss":
			u.Scheme = "https"
		}
		return choose(&u)
	}
}

// DialFunc opens a network connection.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// HTTPTransport returns a copy of base for plain HTTP calls under a proxy policy.
func HTTPTransport(base *http.Transport, policy ProxyFunc) *http.Transport {
	t := base.Clone()
	t.Proxy = policy
	return t
}

// UpgradeTransport returns a round tripper for WebSocket upgrades under a proxy
// policy. net/http would send an upgrade over plain http to the proxy as an
// ordinary request, which proxies do not forward; RFC 6455, 4.1 wants a tunnel, so
// every proxied upgrade takes one. Each upgrade is a connection of its own and is
// HTTP/1.1.
func UpgradeTransport(base *http.Transport, policy ProxyFunc) http.RoundTripper {
	t := base.Clone()
	t.Proxy = nil
	t.DisableKeepAlives = false
	t.ReadBufferSize, t.WriteBufferSize = upgradeBuffer, upgradeBuffer
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	proxyTLS := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.TLSClientConfig != nil {
		t.TLSClientConfig.NextProtos = nil
		proxyTLS = t.TLSClientConfig.Clone()
	}
	dial := DialFunc(t.DialContext)
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	tunnels := &tunneler{dial: dial, tls: proxyTLS}
	t.DialContext = tunnels.open
	if direct := t.DialTLSContext; direct != nil {
		// As in net/http, this hook is for connections that take no proxy.
		t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if via := attemptOf(ctx).via; via != nil {
				return tunnels.openTLS(ctx, network, addr)
			}
			return direct(ctx, network, addr)
		}
	}
	return &upgrader{transport: t, policy: policy}
}

// upgradeBuffer is enough for the head of a request and of its answer. A connection has
// its buffers for the upgrade alone.
const upgradeBuffer = 1 << 10

// attempt is one upgrade. It travels in the request's context, where the
// transport's dial finds it.
type attempt struct {
	ctx context.Context // ends when RoundTrip has: a dial's own context outlives it
	via *url.URL        // the proxy, nil for none

	mu    sync.Mutex
	spare []func() bool // each keeps one connection from being closed when ctx ends
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a
	}
	return &attempt{ctx: context.Background()}
}

// own has conn closed if the attempt fails, in the middle of a TLS handshake, say.
func (a *attempt) own(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spare = append(a.spare, context.AfterFunc(a.ctx, func() { conn.Close() }))
}

// succeed lets go of the connections.
func (a *attempt) succeed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, stop := range a.spare {
		stop()
	}
}

// upgrader asks the proxy policy about each upgrade.
type upgrader struct {
	transport *http.Transport
	policy    ProxyFunc
}

func (u *upgrader) RoundTrip(req *http.Request) (*http.Response, error) {
	// The transport returns at once when the request's context ends. Only then its
	// connections may go, or their end would be the error instead.
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	defer cancel()
	a := &attempt{ctx: ctx}
	if u.policy != nil {
		via, err := u.policy(req)
		if err != nil {
			return nil, fmt.Errorf("choose proxy: %w", err)
		}
		a.via = via
	}
	resp, err := u.transport.RoundTrip(req.WithContext(context.WithValue(req.Context(), attemptKey{}, a)))
	if err == nil {
		a.succeed()
	}
	return resp, err
}

func (u *upgrader) CloseIdleConnections() { u.transport.CloseIdleConnections() }
