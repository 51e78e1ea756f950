package netx

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
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
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	if t.TLSClientConfig != nil {
		t.TLSClientConfig.NextProtos = nil
	}
	dial := DialFunc(t.DialContext)
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if via, ok := ctx.Value(viaKey{}).(*url.URL); ok {
			return tunnel(ctx, via, addr, dial)
		}
		return dial(ctx, network, addr)
	}
	return &upgrader{transport: t, policy: policy}
}

type viaKey struct{}

// upgrader asks the proxy policy about each upgrade and leaves the answer in the
// request's context, where the transport's dial finds it.
type upgrader struct {
	transport *http.Transport
	policy    ProxyFunc
}

func (u *upgrader) RoundTrip(req *http.Request) (*http.Response, error) {
	if u.policy != nil {
		via, err := u.policy(req)
		if err != nil {
			return nil, fmt.Errorf("choose proxy: %w", err)
		}
		if via != nil {
			req = req.WithContext(context.WithValue(req.Context(), viaKey{}, via))
		}
	}
	return u.transport.RoundTrip(req)
}

func (u *upgrader) CloseIdleConnections() { u.transport.CloseIdleConnections() }

// tunnel connects to addr through the proxy.
func tunnel(ctx context.Context, via *url.URL, addr string, dial DialFunc) (net.Conn, error) {
	switch via.Scheme {
	case "http", "https":
	case "socks5", "socks5h":
		d, err := proxy.FromURL(via, contextDialer{dial})
		if err != nil {
			return nil, fmt.Errorf("proxy %s: %w", via.Host, err)
		}
		return d.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
	default:
		return nil, fmt.Errorf("proxy %s: scheme %q is none of http, https, socks5, socks5h", via.Host, via.Scheme)
	}
	conn, err := dial(ctx, "tcp", hostPort(via))
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", via.Host, err)
	}
	if via.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: via.Hostname()})
	}
	tunnelled, err := connect(ctx, conn, via, addr)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("proxy %s: %w", via.Host, err)
	}
	return tunnelled, nil
}

// connect asks the proxy behind conn for a tunnel to addr.
func connect(ctx context.Context, conn net.Conn, via *url.URL, addr string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		token := base64.StdEncoding.EncodeToString([]byte(via.User.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+token)
	}
	if err := req.Write(conn); err != nil {
		return nil, ctxOr(ctx, err)
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return nil, ctxOr(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("tunnel refused with HTTP status %d", resp.StatusCode)
	}
	if !stop() {
		return nil, ctxOr(ctx, errors.New("tunnel aborted"))
	}
	if br.Buffered() > 0 {
		return nil, errors.New("proxy sent bytes before the tunnel was used")
	}
	return conn, nil
}

func ctxOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// contextDialer gives a DialFunc the two shapes that x/net/proxy asks for.
type contextDialer struct{ dial DialFunc }

func (d contextDialer) Dial(network, addr string) (net.Conn, error) {
	return d.dial(context.Background(), network, addr)
}

func (d contextDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.dial(ctx, network, addr)
}
