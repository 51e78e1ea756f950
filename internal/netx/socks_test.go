package netx_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/leak"
)

// socksProxy is a SOCKS5 server (RFC 1928, 1929) that connects every request to
// one address, or refuses it with a code. A password makes it ask for one.
func socksProxy(t *testing.T, to, password string, refuse byte) (*url.URL, *record) {
	t.Helper()
	seen := new(record)
	u := tcpServer(t, func(c net.Conn) {
		asked, refusal := socksRequest(c, password)
		seen.addf("%s", asked)
		if refusal == nil && refuse != 0 {
			refusal = []byte{5, refuse, 0, 1, 0, 0, 0, 0, 0, 0}
		}
		if refusal != nil {
			_, _ = c.Write(refusal)
			return
		}
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		out, err := net.Dial("tcp", to)
		if err != nil {
			t.Errorf("dial: %v", err)
			return
		}
		splice(c, out)
	})
	u.Scheme = "socks5"
	return u, seen
}

// socksRequest reads a greeting, a password and a request. It returns the address,
// or what is wrong and how to say so.
func socksRequest(c net.Conn, password string) (asked string, refusal []byte) {
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(c, b) // what is missing is zero, and refused
		return b
	}
	methods := read(int(read(2)[1]))
	if password == "" {
		_, _ = c.Write([]byte{5, 0})
	} else {
		if !slices.Contains(methods, 2) {
			return "no password offered", []byte{5, 0xFF}
		}
		_, _ = c.Write([]byte{5, 2})
		user := read(int(read(2)[1]))
		if got := string(user) + ":" + string(read(int(read(1)[0]))); got != password {
			return "wrong password", []byte{1, 1}
		}
		_, _ = c.Write([]byte{1, 0})
	}
	var host string
	switch kind := read(4)[3]; kind {
	case 1:
		host = net.IP(read(4)).String()
	case 3:
		host = string(read(int(read(1)[0])))
	case 4:
		host = net.IP(read(16)).String()
	default:
		return fmt.Sprintf("address type %d", kind), []byte{5, 8, 0, 1, 0, 0, 0, 0, 0, 0}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(read(2))))), nil
}

func TestSOCKS(t *testing.T) {
	leak.Check(t)
	for _, test := range []struct {
		name, scheme, address string
		secure                bool
		password              string // of the proxy
		user                  *url.Userinfo
		refuse                byte
		asked                 string
		err                   string
	}{
		{name: "by name", scheme: "socks5", address: "ws://env.test:8000/ws", asked: "env.test:8000"},
		{name: "by name, spelled socks5h", scheme: "socks5h", address: "ws://env.test/ws", asked: "env.test:80"},
		{name: "by address", scheme: "socks5", address: "ws://10.0.0.1/ws", asked: "10.0.0.1:80"},
		{name: "by IPv6 address", scheme: "socks5", address: "ws://[2001:db8::1]/ws", asked: "[2001:db8::1]:80"},
		{name: "TLS inside", scheme: "socks5", address: "wss://example.com/ws", secure: true, asked: "example.com:443"},
		{name: "password", scheme: "socks5", address: "ws://env.test/ws", password: "me:s3cret", user: url.UserPassword("me", "s3cret"), asked: "env.test:80"},
		{name: "wrong password", scheme: "socks5", address: "ws://env.test/ws", password: "me:other", user: url.UserPassword("me", "s3cret"), asked: "wrong password", err: "username/password authentication failed"},
		{name: "no password", scheme: "socks5", address: "ws://env.test/ws", password: "me:other", asked: "no password offered", err: "no acceptable authentication methods"},
		{name: "refused", scheme: "socks5", address: "ws://env.test/ws", refuse: 5, asked: "env.test:80", err: "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := upstream(t, test.secure)
			proxy, seen := socksProxy(t, server.Listener.Addr().String(), test.password, test.refuse)
			proxy.Scheme, proxy.User = test.scheme, test.user
			base := &http.Transport{TLSClientConfig: server.Client().Transport.(*http.Transport).TLSClientConfig}
			err := echoOver(t.Context(), upgrades(t, base, fixed(proxy)), test.address)
			if test.err == "" && err != nil {
				t.Error(err)
			}
			if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), proxy.Host) || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("got %v, want %q, the proxy's host, and no secret", err, test.err)
			}
			if got := seen.got(); !slices.Equal(got, []string{test.asked}) {
				t.Errorf("the proxy was asked for %q, want %q", got, test.asked)
			}
		})
	}
}
