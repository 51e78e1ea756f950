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

	"golang.org/x/net/proxy"
)

// tunneler makes the connections of upgrades.
type tunneler struct {
	dial DialFunc
	tls  *tls.Config // of connections to https proxies, and through proxies
}

func (t *tunneler) open(ctx context.Context, network, addr string) (net.Conn, error) {
	a := attemptOf(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(a.ctx, cancel)
	defer stop()
	conn, err := t.dialVia(ctx, a.via, network, addr)
	if err != nil {
		return nil, err
	}
	a.own(conn)
	return conn, nil
}

func (t *tunneler) openTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := t.open(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		conn.Close()
		return nil, err
	}
	config := t.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// dialVia connects to addr, through the proxy if there is one.
func (t *tunneler) dialVia(ctx context.Context, via *url.URL, network, addr string) (net.Conn, error) {
	if via == nil {
		return t.dial(ctx, network, addr)
	}
	switch via.Scheme {
	case "http", "https":
	case "socks5", "socks5h":
		d, err := proxy.FromURL(via, contextDialer{t.dial})
		if err != nil {
			return nil, fmt.Errorf("proxy %s: %w", via.Host, err)
		}
		return d.(proxy.ContextDialer).DialContext(ctx, network, addr) //nolint:forcetypeassert // as FromURL documents for SOCKS
	default:
		return nil, fmt.Errorf("proxy %s: scheme %q is none of http, https, socks5, socks5h", via.Host, via.Scheme)
	}
	conn, err := t.dial(ctx, network, hostPort(via))
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", via.Host, err)
	}
	if via.Scheme == "https" {
		config := t.tls.Clone()
		config.ServerName = via.Hostname() // one that was set is the server's
		conn = tls.Client(conn, config)
	}
	if err := connect(ctx, conn, via, addr); err != nil {
		conn.Close()
		return nil, fmt.Errorf("proxy %s: %w", via.Host, err)
	}
	return conn, nil
}

// connect asks the proxy behind conn for a tunnel to addr.
func connect(ctx context.Context, conn net.Conn, via *url.URL, addr string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		token := base64.StdEncoding.EncodeToString([]byte(via.User.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+token)
	}
	if err := req.Write(conn); err != nil {
		return ctxOr(ctx, err)
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, req) //nolint:bodyclose // what follows is the tunnel, or is closed with conn
	if err != nil {
		return ctxOr(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("tunnel refused with HTTP status %d", resp.StatusCode)
	}
	if !stop() {
		return ctxOr(ctx, errors.New("tunnel aborted"))
	}
	if br.Buffered() > 0 {
		return errors.New("proxy sent bytes before the tunnel was used")
	}
	return nil
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
