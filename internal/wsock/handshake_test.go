package wsock_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/wsock"
)

// dialServer dials an httptest server with its own client.
func dialServer(t *testing.T, server *httptest.Server, path string, header http.Header) (*wsock.Conn, error) {
	t.Helper()
	address := "ws" + strings.TrimPrefix(server.URL, "http") + path
	return wsock.Dial(t.Context(), address, server.Client(), header, wsock.Options{CloseTimeout: closeTimeout})
}

func TestRefusedUpgradesTellTheStatus(t *testing.T) {
	leak.Check(t)
	var elsewhere atomic.Int32
	for _, test := range []struct {
		name   string
		status int
		header string
		want   string
	}{
		{"unauthorized", http.StatusUnauthorized, "", "401 Unauthorized"},
		{"not found", http.StatusNotFound, "", "404 Not Found"},
		{"redirect", http.StatusTemporaryRedirect, "/elsewhere", "307 Temporary Redirect"},
		{"redirect to a login page", http.StatusFound, "/elsewhere", "302 Found"},
		{"full", http.StatusServiceUnavailable, "", "503 Service Unavailable"},
		{"a page", http.StatusOK, "", "200 OK"},
		{"a status without a name", 599, "", "599"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == test.header {
					elsewhere.Add(1)
				}
				if test.header != "" {
					w.Header().Set("Location", test.header)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, "<html>s3cret</html>")
			}))
			defer server.Close()
			conn, err := dialServer(t, server, "/ws?token=s3cret", http.Header{"Authorization": {"Bearer s3cret"}})
			he, ok := errors.AsType[*wsock.HandshakeError](err)
			if !ok || he.Status != test.status || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want %q in a handshake error", conn, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the secret is in %v", err)
			}
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestHandshakesThatGetNoAnswer(t *testing.T) {
	leak.Check(t)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
	defer transport.CloseIdleConnections()
	for _, test := range []struct{ name, address, want string }{
		{"nobody listens", "ws://" + nobody.Addr().String() + "/ws?token=s3cret", "dial tcp " + nobody.Addr().String()},
		{"the server speaks no TLS", "wss://" + plain.Listener.Addr().String() + "/ws?token=s3cret", "HTTP response to HTTPS client"},
		{"a certificate for another name", "wss://localhost:" + secure.URL[strings.LastIndex(secure.URL, ":")+1:] + "/ws", "certificate"},
		{"no socket scheme", "ftp://h/ws", "unexpected url scheme"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := wsock.Dial(t.Context(), test.address, &http.Client{Transport: transport}, nil, wsock.Options{})
			he, ok := errors.AsType[*wsock.HandshakeError](err)
			if !ok || he.Status != 0 || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q in a handshake error without a status", err, test.want)
			}
		})
	}
}

// Answers that say 101 and are no upgrade.
func TestFalseUpgrades(t *testing.T) {
	for name, answer := range map[string]string{
		"no key":        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"another key":   "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: eA==\r\n\r\n",
		"not WebSocket": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"not HTTP":      "220 mail ready\r\n\r\n",
		"hang-up":       "",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				l := memory.listen(t)
				go func() {
					defer l.Close()
					c, err := l.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					_, _ = c.Read(make([]byte, 4096))
					_, _ = io.WriteString(c, answer)
				}()
				conn, err := wsock.Dial(t.Context(), "ws://server.test/ws", memory.client(t, l), nil, wsock.Options{})
				if he, ok := errors.AsType[*wsock.HandshakeError](err); !ok || he.Status != 0 {
					t.Errorf("got %v, %v, want a handshake error", conn, err)
				}
			})
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		release := make(chan struct{})
		l := memory.serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		defer close(release)
		reason := errors.New("no connection within 10s")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, reason)
		defer cancel()
		start := time.Now()
		_, err := wsock.Dial(ctx, "ws://server.test/ws", memory.client(t, l), nil, wsock.Options{})
		if he, ok := errors.AsType[*wsock.HandshakeError](err); !ok || he.Status != 0 || !errors.Is(err, reason) {
			t.Errorf("got %v, want %v in a handshake error", err, reason)
		}
		if passed := time.Since(start); passed != 10*time.Second {
			t.Errorf("took %v", passed)
		}
	})
}

func TestDialSendsHeadersAndUser(t *testing.T) {
	leak.Check(t)
	got := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Clone(context.Background())
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	address, err := url.Parse("ws" + strings.TrimPrefix(server.URL, "http") + "/a%2Fb/ws?x=1")
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("me", "pw")
	header := http.Header{"X-Trace": {"1", "2"}}
	if _, err := wsock.Dial(t.Context(), address.String(), server.Client(), header, wsock.Options{}); err == nil {
		t.Error("got a connection")
	}
	r := <-got
	user, password, _ := r.BasicAuth()
	if r.RequestURI != "/a%2Fb/ws?x=1" || len(r.Header["X-Trace"]) != 2 || user != "me" || password != "pw" || r.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("got %s with %v", r.RequestURI, r.Header)
	}
	if len(header) != 1 {
		t.Errorf("the caller's headers became %v", header)
	}
}

func TestAccept(t *testing.T) {
	leak.Check(t)
	upgrade := func(more http.Header) http.Header {
		h := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
		maps.Copy(h, more)
		return h
	}
	for _, test := range []struct {
		name     string
		header   http.Header
		accept   wsock.AcceptOptions
		want     int
		protocol string
	}{
		{name: "a program sends no origin", header: upgrade(nil), want: 101},
		{name: "the same host", header: upgrade(http.Header{"Origin": {"http://env.test"}}), want: 101},
		{name: "the same host, another scheme", header: upgrade(http.Header{"Origin": {"https://ENV.test"}}), want: 101},
		{name: "a page of another host", header: upgrade(http.Header{"Origin": {"http://evil.test"}}), want: 403},
		{name: "a host that begins alike", header: upgrade(http.Header{"Origin": {"http://env.test.evil.test"}}), want: 403},
		{name: "an origin that is none", header: upgrade(http.Header{"Origin": {"null"}}), want: 403},
		{name: "an allowed host", header: upgrade(http.Header{"Origin": {"http://ui.test"}}), accept: wsock.AcceptOptions{Origins: []string{"*.example.com", "ui.test"}}, want: 101},
		{name: "an allowed pattern", header: upgrade(http.Header{"Origin": {"http://a.example.com"}}), accept: wsock.AcceptOptions{Origins: []string{"*.example.com"}}, want: 101},
		{name: "a host beside the allowed ones", header: upgrade(http.Header{"Origin": {"http://evil.test"}}), accept: wsock.AcceptOptions{Origins: []string{"ui.test"}}, want: 403},
		{name: "an offered subprotocol is ignored", header: upgrade(http.Header{"Sec-Websocket-Protocol": {"mcp"}}), want: 101},
		{name: "a known subprotocol is chosen", header: upgrade(http.Header{"Sec-Websocket-Protocol": {"x, mcp"}}), accept: wsock.AcceptOptions{Subprotocols: []string{"mcp"}}, want: 101, protocol: "mcp"},
		{name: "offered compression is declined", header: upgrade(http.Header{"Sec-Websocket-Extensions": {"permessage-deflate"}}), want: 101},
		{name: "a plain request", header: http.Header{}, want: 426},
		{name: "an upgrade to something else", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"h2c"}}, want: 426},
		{name: "an old version", header: upgrade(http.Header{"Sec-Websocket-Version": {"8"}}), want: 400},
		{name: "no key", header: upgrade(http.Header{"Sec-Websocket-Key": nil}), want: 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			protocol := make(chan string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, err := wsock.Accept(w, r, test.accept, wsock.Options{})
				if (err == nil) != (test.want == 101) {
					t.Errorf("accept: %v", err)
				}
				if err == nil {
					protocol <- conn.Subprotocol()
					conn.Abort()
				}
			}))
			defer server.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/ws", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host, req.Header = "env.test", test.header
			resp, err := server.Client().Transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != test.want || resp.Header.Get("Sec-WebSocket-Protocol") != test.protocol || resp.Header.Get("Sec-WebSocket-Extensions") != "" {
				t.Errorf("got %d %v, want %d", resp.StatusCode, resp.Header, test.want)
			}
			if test.want == 101 {
				if got := <-protocol; got != test.protocol {
					t.Errorf("subprotocol: got %q, want %q", got, test.protocol)
				}
			}
		})
	}
}

// Both ends know what the handshake agreed on. A server that knows none of the
// subprotocols is talked to without one; one that chooses another breaks the protocol.
func TestDialOffersSubprotocols(t *testing.T) {
	leak.Check(t)
	for _, test := range []struct {
		name           string
		offered, known []string
		want           string
	}{
		{"the only one", []string{"v1"}, []string{"v1"}, "v1"},
		{"one of two", []string{"v2", "v1"}, []string{"v1"}, "v1"},
		{"none that is known", []string{"v2"}, []string{"v1"}, ""},
		{"none offered", nil, []string{"v1"}, ""},
		{"none known", []string{"v1"}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			accepted := make(chan string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, err := wsock.Accept(w, r, wsock.AcceptOptions{Subprotocols: test.known}, wsock.Options{})
				if err != nil {
					t.Errorf("accept: %v", err)
					close(accepted)
					return
				}
				accepted <- conn.Subprotocol()
				conn.Abort()
			}))
			defer server.Close()
			address := "ws" + strings.TrimPrefix(server.URL, "http") + "/ws"
			conn, err := wsock.Dial(t.Context(), address, server.Client(), nil, wsock.Options{Subprotocols: test.offered})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Abort()
			if here, there := conn.Subprotocol(), <-accepted; here != test.want || there != test.want {
				t.Errorf("the client knows %q, the server %q, want %q", here, there, test.want)
			}
		})
	}
}

// What a client sends right behind its upgrade is not lost, and a deadline that
// the HTTP server had set does not count for the socket.
func TestAcceptTakesOverTheConnection(t *testing.T) {
	leak.Check(t)
	result := make(chan error, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := wsock.Accept(w, r, wsock.AcceptOptions{}, wsock.Options{})
		if err != nil {
			result <- err
			return
		}
		defer conn.Abort()
		for _, want := range []string{"early", "late"} {
			buf, _, err := conn.Read(func() *bytes.Buffer { return new(bytes.Buffer) })
			if err != nil {
				result <- err
				return
			}
			if buf.String() != want {
				t.Errorf("got %q, want %q", buf, want)
			}
		}
		result <- nil
	}))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	server.Start()
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw := &rawPeer{Conn: c, masks: true}
	request := "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	if _, err := c.Write(raw.append([]byte(request), frame{true, opText, []byte("early")})); err != nil {
		t.Fatal(err)
	}
	time.Sleep(150 * time.Millisecond) // real: the deadlines are those of a real socket
	if err := raw.send(frame{true, opText, []byte("late")}); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"closed by the peer with code 1000":             &wsock.CloseError{Code: 1000},
		"closed by the peer with code 1009 (too large)": &wsock.CloseError{Code: 1009, Reason: "too large"},
		"refused": &wsock.HandshakeError{Status: 500, Err: errors.New("refused")},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
