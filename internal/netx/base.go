package netx

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Base is a server's address, parsed once.
type Base struct {
	scheme string // http or https
	host   string
	path   string // no trailing slash
	query  string
	user   *url.Userinfo
}

// ParseBase reads a base address: http, https, ws or wss in any case, or a bare
// host and port. A path prefix and a query are kept; a trailing slash and a
// trailing /ws are not part of the address.
func ParseBase(raw string) (*Base, error) {
	text := strings.TrimSpace(raw)
	if text == "" {
		return nil, errors.New("base URL is empty")
	}
	// In a bare address the two slashes can only be part of its path or query.
	if scheme := strings.Index(text, "://"); scheme < 0 || strings.ContainsAny(text[:scheme], "/?#") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", withoutAddress(err, text))
	}
	b := &Base{host: u.Host, user: u.User, query: u.RawQuery}
	switch strings.ToLower(u.Scheme) {
	case "http", "ws":
		b.scheme = "http"
	case "https", "wss":
		b.scheme = "https"
	default:
		return nil, fmt.Errorf("base URL: scheme %q is none of http, https, ws, wss", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("base URL: no host")
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil && u.Port() != "" {
		return nil, fmt.Errorf("base URL: port %s is out of range", u.Port())
	}
	if u.Fragment != "" {
		return nil, errors.New("base URL: a fragment has no meaning here")
	}
	b.path = strings.TrimRight(u.EscapedPath(), "/")
	if b.path == "/ws" || strings.HasSuffix(b.path, "/ws") {
		b.path = strings.TrimRight(strings.TrimSuffix(b.path, "/ws"), "/")
	}
	return b, nil
}

// withoutAddress is a parse error without the address, which can hold secrets. With
// a user in front of the host, what url.Parse took for a port may be a password.
func withoutAddress(err error, text string) error {
	if strings.Contains(text, "@") {
		return errors.New("malformed address")
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

// Socket is the address of the session socket, with extra query parameters.
func (b *Base) Socket(extra url.Values) *url.URL {
	u := b.join("/ws", extra)
	u.Scheme = map[string]string{"http": "ws", "https": "wss"}[b.scheme]
	return u
}

// HTTP is the address of a route; route begins with a slash and is escaped.
func (b *Base) HTTP(route string) *url.URL { return b.join(route, nil) }

func (b *Base) join(route string, extra url.Values) *url.URL {
	u := &url.URL{Scheme: b.scheme, Host: b.host, User: b.user, RawQuery: b.query}
	escaped := b.path + route
	if path, err := url.PathUnescape(escaped); err == nil {
		u.Path, u.RawPath = path, escaped
	} else {
		u.Path = escaped
	}
	if len(extra) > 0 {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += extra.Encode()
	}
	return u
}

// String is the base address as http or https, without a user and a query: they
// can carry secrets, and this text goes into errors and logs.
func (b *Base) String() string { return b.show(b.scheme, "") }

// SocketString is the socket's address for errors and logs, without secrets.
func (b *Base) SocketString() string {
	return b.show(strings.Replace(b.scheme, "http", "ws", 1), "/ws")
}

func (b *Base) show(scheme, route string) string {
	u := b.join(route, nil)
	u.Scheme, u.User, u.RawQuery = scheme, nil, ""
	return u.String()
}

// IsLoopback reports whether host, a name or an IP address without a port, is this
// machine. The host is compared whole: localhost.example.com is another machine.
func IsLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
