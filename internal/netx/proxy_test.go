package netx_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/netx"
)

// record is the list of what a proxy was asked for.
type record struct {
	mu   sync.Mutex
	list []string
}

func (r *record) addf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf(format, args...))
}

func (r *record) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// upstream is a server behind every name: a WebSocket echo, and its health.
func upstream(t *testing.T, secure bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			_, _ = io.WriteString(w, `{"status":"healthy"}`)
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		if kind, text, err := c.Read(r.Context()); err == nil {
			_ = c.Write(r.Context(), kind, text)
		}
		_, _, _ = c.Read(r.Context()) // the client's close
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail on purpose
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// httpProxy records what it is asked for and connects every tunnel to one address.
func httpProxy(t *testing.T, to string, secure bool) (*url.URL, *record) {
	t.Helper()
	seen := new(record)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.addf("%s %s%s", r.Method, r.RequestURI, strings.TrimSuffix(" "+r.Header.Get("Proxy-Authorization"), " "))
		if r.Method != http.MethodConnect {
			_, _ = io.WriteString(w, `{"status":"healthy"}`)
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		in, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			out.Close()
			return
		}
		_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		splice(in, out) // the client has waited for the answer: nothing is buffered
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail on purpose
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u, seen
}

// splice copies both ways until one side ends. It hides that both are sockets: the
// runtime would move the bytes through pipes that it keeps.
func splice(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(struct{ io.Writer }{b}, struct{ io.Reader }{a}); b.Close() })
	_, _ = io.Copy(struct{ io.Writer }{a}, struct{ io.Reader }{b})
	a.Close()
	both.Wait()
}

// network is a transport on which every address but a proxy's leads to one server.
// It counts the connections that took no proxy.
func network(s *httptest.Server, proxies ...*url.URL) (*http.Transport, *atomic.Int32) {
	direct := new(atomic.Int32)
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig
	return &http.Transport{
		TLSClientConfig: roots,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !slices.ContainsFunc(proxies, func(p *url.URL) bool { return p.Host == addr }) {
				direct.Add(1)
				addr = s.Listener.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}, direct
}

// echoOver opens a WebSocket, says something and closes it.
func echoOver(ctx context.Context, rt http.RoundTripper, address string) error {
	c, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: &http.Client{Transport: rt}})
	if err != nil {
		return err
	}
	defer c.CloseNow()
	if err := c.Write(ctx, websocket.MessageText, []byte("hi")); err != nil {
		return err
	}
	if _, text, err := c.Read(ctx); err != nil || string(text) != "hi" {
		return fmt.Errorf("echo: got %q, %w", text, err)
	}
	c.Close(websocket.StatusNormalClosure, "") // over TLS its error depends on who closes first
	return nil
}

// upgrades returns the transport under test; its connections are gone at the end.
func upgrades(t *testing.T, base *http.Transport, policy netx.ProxyFunc) http.RoundTripper {
	t.Helper()
	rt := netx.UpgradeTransport(base, policy)
	t.Cleanup(rt.(interface{ CloseIdleConnections() }).CloseIdleConnections)
	return rt
}

// setProxyVariables makes these the only proxy variables that are set.
func setProxyVariables(t *testing.T, values map[string]string) {
	t.Helper()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "REQUEST_METHOD"} {
		for _, spelling := range []string{name, strings.ToLower(name)} {
			t.Setenv(spelling, "")
		}
		t.Setenv(name, values[name])
	}
}

func TestProxyFromEnvironment(t *testing.T) {
	leak.Check(t)
	for _, test := range []struct {
		name    string
		address string
		secure  bool
		noProxy string
		want    []string // what the proxy is asked for, nothing when the way is direct
	}{
		{"ws takes a tunnel", "ws://env.test/ws", false, "", []string{"CONNECT env.test:80"}},
		{"ws with a port", "ws://env.test:8000/ws", false, "other.test", []string{"CONNECT env.test:8000"}},
		{"wss takes a tunnel", "wss://example.com/ws", true, "", []string{"CONNECT example.com:443"}},
		{"a private address", "ws://10.0.0.1:8000/ws", false, "", []string{"CONNECT 10.0.0.1:8000"}},
		{"the host is an exception", "ws://env.test/ws", false, "other.test,env.test", nil},
		{"the host of wss is an exception", "wss://example.com/ws", true, "example.com", nil},
		{"its domain is an exception", "ws://env.test/ws", false, ".test", nil},
		{"everything is an exception", "ws://env.test/ws", false, "*", nil},
		{"its port is an exception", "ws://env.test:8000/ws", false, "env.test:8000", nil},
		{"its network is an exception", "ws://10.0.0.1/ws", false, "10.0.0.0/8", nil},
		{"localhost", "ws://localhost:1/ws", false, "", nil},
		{"localhost as a full name", "ws://localhost.:1/ws", false, "", nil},
		{"loopback", "ws://127.8.9.1:1/ws", false, "", nil},
		{"loopback, IPv6", "ws://[::1]:1/ws", false, "", nil},
		{"loopback over TLS", "wss://127.0.0.1/ws", true, "", nil},
		{"a name that begins like loopback", "ws://127.0.0.1.example.com/ws", false, "", []string{"CONNECT 127.0.0.1.example.com:80"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := upstream(t, test.secure)
			proxy, seen := httpProxy(t, server.Listener.Addr().String(), false)
			base, direct := network(server, proxy)
			setProxyVariables(t, map[string]string{"HTTP_PROXY": proxy.String(), "HTTPS_PROXY": proxy.String(), "NO_PROXY": test.noProxy})
			if err := echoOver(t.Context(), upgrades(t, base, netx.ProxyFromEnvironment()), test.address); err != nil {
				t.Fatal(err)
			}
			if got := seen.got(); !slices.Equal(got, test.want) {
				t.Errorf("the proxy was asked for %q, want %q", got, test.want)
			}
			if got, want := direct.Load() > 0, test.want == nil; got != want {
				t.Errorf("direct: %v, want %v", got, want)
			}
		})
	}
}

// The HTTP calls of a client follow the same rule as its socket.
func TestProxyOfHTTPCalls(t *testing.T) {
	leak.Check(t)
	for _, test := range []struct {
		name, address, noProxy string
		want                   []string
	}{
		{"through the proxy", "http://env.test", "", []string{"GET http://env.test/health"}},
		{"exception", "http://env.test", "env.test", nil},
		{"loopback", "http://127.0.0.1:1", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := upstream(t, false)
			proxy, seen := httpProxy(t, server.Listener.Addr().String(), false)
			base, _ := network(server, proxy)
			setProxyVariables(t, map[string]string{"HTTP_PROXY": proxy.String(), "NO_PROXY": test.noProxy})
			transport := netx.HTTPTransport(base, netx.ProxyFromEnvironment())
			defer transport.CloseIdleConnections()
			if err := netx.Health(t.Context(), &http.Client{Transport: transport}, parse(t, test.address), nil); err != nil {
				t.Fatal(err)
			}
			if got := seen.got(); !slices.Equal(got, test.want) {
				t.Errorf("the proxy was asked for %q, want %q", got, test.want)
			}
		})
	}
}

func TestNoPolicyIsDirect(t *testing.T) {
	leak.Check(t)
	server := upstream(t, false)
	proxy, seen := httpProxy(t, server.Listener.Addr().String(), false)
	setProxyVariables(t, map[string]string{"HTTP_PROXY": proxy.String()})
	for name, policy := range map[string]netx.ProxyFunc{
		"no policy": nil,
		"no proxy":  fixed(nil),
	} {
		base, direct := network(server, proxy)
		base.Proxy = http.ProxyFromEnvironment // what the policy replaces
		if err := echoOver(t.Context(), upgrades(t, base, policy), "ws://env.test/ws"); err != nil || direct.Load() != 1 || len(seen.got()) != 0 {
			t.Errorf("%s: got %v, %d direct, proxy asked for %q", name, err, direct.Load(), seen.got())
		}
	}
	failing := func(*http.Request) (*url.URL, error) { return nil, errors.New("no idea") }
	base, _ := network(server)
	if err := echoOver(t.Context(), upgrades(t, base, failing), "ws://env.test/ws"); err == nil || !strings.Contains(err.Error(), "choose proxy: no idea") {
		t.Errorf("a policy that fails: got %v", err)
	}
}

func fixed(u *url.URL) netx.ProxyFunc {
	return func(*http.Request) (*url.URL, error) { return u, nil }
}

func TestProxyAuthentication(t *testing.T) {
	leak.Check(t)
	server := upstream(t, false)
	for _, secure := range []bool{false, true} {
		proxy, seen := httpProxy(t, server.Listener.Addr().String(), secure)
		base, _ := network(upstream(t, true), proxy) // whose certificate is that of the secure proxy, too
		proxy.User = url.UserPassword("me", "p:w d")
		if err := echoOver(t.Context(), upgrades(t, base, fixed(proxy)), "ws://env.test/ws"); err != nil {
			t.Fatal(err)
		}
		want := []string{"CONNECT env.test:80 Basic bWU6cDp3IGQ="}
		if got := seen.got(); !slices.Equal(got, want) {
			t.Errorf("%s: the proxy was asked for %q, want %q", proxy.Scheme, got, want)
		}
	}
}

// The configuration of the server's certificate is the proxy's, too, except for a
// name that was set: it is the server's.
func TestSecureServerBehindSecureProxy(t *testing.T) {
	leak.Check(t)
	server := upstream(t, true)
	proxy, seen := httpProxy(t, server.Listener.Addr().String(), true)
	base, _ := network(server, proxy)
	base.TLSClientConfig.ServerName = "example.com"
	if err := echoOver(t.Context(), upgrades(t, base, fixed(proxy)), "wss://env.test/ws"); err != nil {
		t.Fatal(err)
	}
	if got := seen.got(); !slices.Equal(got, []string{"CONNECT env.test:443"}) {
		t.Errorf("the proxy was asked for %q", got)
	}
	base, _ = network(server, proxy)
	base.TLSClientConfig = &tls.Config{}
	if err := echoOver(t.Context(), upgrades(t, base, fixed(proxy)), "wss://env.test/ws"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a proxy without a known certificate: got %v", err)
	}
}

// A hook for TLS connections is for those that take no proxy, as in net/http.
func TestProxyPassesByTheTLSHook(t *testing.T) {
	leak.Check(t)
	server := upstream(t, true)
	proxy, seen := httpProxy(t, server.Listener.Addr().String(), false)
	hooked := 0
	for _, policy := range []netx.ProxyFunc{fixed(proxy), nil} {
		base, _ := network(server, proxy)
		config := base.TLSClientConfig
		base.DialTLSContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			hooked++
			d := tls.Dialer{Config: config.Clone()}
			d.Config.ServerName = "example.com"
			return d.DialContext(ctx, network, server.Listener.Addr().String())
		}
		if err := echoOver(t.Context(), upgrades(t, base, policy), "wss://example.com/ws"); err != nil {
			t.Fatal(err)
		}
	}
	if got := seen.got(); hooked != 1 || !slices.Equal(got, []string{"CONNECT example.com:443"}) {
		t.Errorf("hook called %d times, proxy asked for %q, want one each", hooked, got)
	}
}

func TestProxyRefuses(t *testing.T) {
	leak.Check(t)
	for _, test := range []struct {
		name   string
		answer string
		want   string
	}{
		{"forbidden", "HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\ns3cret", "tunnel refused with HTTP status 403"},
		{"wants a password", "HTTP/1.1 407 s3cret\r\nProxy-Authenticate: Basic realm=s3cret\r\n\r\n", "tunnel refused with HTTP status 407"},
		{"cannot reach the server", "HTTP/1.1 502 Bad Gateway\r\n\r\n", "tunnel refused with HTTP status 502"},
		{"redirects", "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://s3cret\r\n\r\n", "tunnel refused with HTTP status 307"},
		{"hangs up", "", "EOF"},
		{"speaks of itself", "HTTP/1.1 200 OK\r\n\r\nwelcome", "proxy sent bytes"},
		{"is no proxy", "220 mail ready\r\n\r\n", "malformed HTTP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			proxy := tcpServer(t, func(c net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_, _ = io.WriteString(c, test.answer)
			})
			proxy.User = url.UserPassword("me", "s3cret")
			err := echoOver(t.Context(), upgrades(t, new(http.Transport), fixed(proxy)), "ws://env.test/ws?token=s3cret")
			if ue, ok := errors.AsType[*url.Error](err); ok {
				err = ue.Err // the address that net/http puts in front is the caller's business
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), proxy.Host) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q, the proxy's host, and no secret", err, test.want)
			}
		})
	}
	proxy := &url.URL{Scheme: "ftp", User: url.UserPassword("me", "s3cret"), Host: "proxy.test:21"}
	err := echoOver(t.Context(), upgrades(t, new(http.Transport), fixed(proxy)), "ws://env.test/ws")
	if err == nil || !strings.Contains(err.Error(), `proxy proxy.test:21: scheme "ftp"`) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("another scheme: got %v", err)
	}
}

// tcpServer hands each connection to serve and closes it.
func tcpServer(t *testing.T, serve func(net.Conn)) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

// Whatever an upgrade waits for, the end of its context frees the connection,
// too: net/http alone would go on dialling for the next request.
func TestCancelInTheMiddle(t *testing.T) {
	leak.Check(t)
	for _, test := range []struct {
		name    string
		address string
		scheme  string // of the proxy, "" for none
		answer  string // what comes before the silence
	}{
		{"of CONNECT", "ws://env.test/ws", "http", ""},
		{"of the answer to CONNECT", "ws://env.test/ws", "http", "HTTP/1.1 200"},
		{"of TLS with the proxy", "ws://env.test/ws", "https", ""},
		{"of SOCKS", "ws://env.test/ws", "socks5", "\x05"},
		{"of TLS with the server", "wss://env.test/ws", "", ""},
		{"of TLS through the proxy", "wss://env.test/ws", "http", "HTTP/1.1 200 OK\r\n\r\n"},
		{"of the upgrade", "ws://env.test/ws", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			reached, freed := make(chan struct{}), make(chan struct{})
			silent := tcpServer(t, func(c net.Conn) {
				defer close(freed)
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, test.answer)
				close(reached)
				_, _ = io.Copy(io.Discard, c)
			})
			base := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, silent.Host)
			}}
			var policy netx.ProxyFunc
			if test.scheme != "" {
				policy = fixed(&url.URL{Scheme: test.scheme, Host: silent.Host})
			}
			rt := upgrades(t, base, policy)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- echoOver(ctx, rt, test.address) }()
			<-reached
			cancel()
			for _, step := range []struct {
				what string
				wait func() bool
			}{
				{"the call did not return", func() bool { return within(done, func(err error) bool { return errors.Is(err, context.Canceled) }) }},
				{"the connection stayed open", func() bool { return within(freed, func(struct{}) bool { return true }) }},
			} {
				if !step.wait() {
					t.Fatal(step.what)
				}
			}
		})
	}
}

// within waits a second for a value that is as wanted, or for a closed channel.
func within[T any](ch <-chan T, wanted func(T) bool) bool {
	select {
	case v := <-ch:
		return wanted(v)
	case <-time.After(time.Second):
		return false
	}
}

func TestManyUpgradesLeaveTheEnvironmentAlone(t *testing.T) {
	leak.Check(t)
	server := upstream(t, false)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	setProxyVariables(t, map[string]string{"HTTP_PROXY": "http://" + dead.Addr().String(), "NO_PROXY": "x.test"})
	before := os.Environ()
	address := "ws" + strings.TrimPrefix(server.URL, "http") + "/ws"
	var all sync.WaitGroup
	failed := map[string]int{}
	var mu sync.Mutex
	for range 200 {
		all.Go(func() {
			rt := netx.UpgradeTransport(new(http.Transport), netx.ProxyFromEnvironment())
			defer rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			if err := echoOver(t.Context(), rt, address); err != nil {
				mu.Lock()
				failed[err.Error()]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(failed) > 0 {
		t.Errorf("failures: %v", slices.Sorted(maps.Keys(failed)))
	}
	if after := os.Environ(); !slices.Equal(before, after) {
		t.Errorf("the environment was %q, is %q", before, after)
	}
	// The variables do lead to a proxy, for another host.
	rt := upgrades(t, new(http.Transport), netx.ProxyFromEnvironment())
	if err := echoOver(t.Context(), rt, "ws://env.test/ws"); err == nil || !strings.Contains(err.Error(), "proxy "+dead.Addr().String()) {
		t.Errorf("through the dead proxy: got %v", err)
	}
}
