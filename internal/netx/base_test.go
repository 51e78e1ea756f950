package netx_test

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/netx"
)

func TestParseBase(t *testing.T) {
	for _, test := range []struct {
		raw, socket, health, shown string // shown is String, "" when it is health without its route
	}{
		{raw: "http://h:1/", socket: "ws://h:1/ws", health: "http://h:1/health"},
		{raw: "https://h/p/", socket: "wss://h/p/ws", health: "https://h/p/health"},
		{raw: "ws://h/ws", socket: "ws://h/ws", health: "http://h/health"},
		{raw: "wss://h/ws/", socket: "wss://h/ws", health: "https://h/health"},
		{raw: "HTTP://h:1", socket: "ws://h:1/ws", health: "http://h:1/health"},
		{raw: "WsS://h", socket: "wss://h/ws", health: "https://h/health"},
		{raw: "h:1", socket: "ws://h:1/ws", health: "http://h:1/health"},
		{raw: "localhost", socket: "ws://localhost/ws", health: "http://localhost/health"},
		{raw: "h:1/p", socket: "ws://h:1/p/ws", health: "http://h:1/p/health"},
		{raw: "h/p?next=http://x", socket: "ws://h/p/ws?next=http://x", health: "http://h/p/health?next=http://x", shown: "http://h/p"},
		{raw: "  http://h \n", socket: "ws://h/ws", health: "http://h/health"},
		{raw: "https://h/p?x=1", socket: "wss://h/p/ws?x=1", health: "https://h/p/health?x=1", shown: "https://h/p"},
		{raw: "http://h?x=1&y=%20", socket: "ws://h/ws?x=1&y=%20", health: "http://h/health?x=1&y=%20", shown: "http://h"},
		{raw: "http://h/p/ws?x=1", socket: "ws://h/p/ws?x=1", health: "http://h/p/health?x=1", shown: "http://h/p"},
		{raw: "http://[::1]:1", socket: "ws://[::1]:1/ws", health: "http://[::1]:1/health"},
		{raw: "[::1]:1", socket: "ws://[::1]:1/ws", health: "http://[::1]:1/health"},
		{raw: "http://[fe80::1%25eth0]:1", socket: "ws://[fe80::1%25eth0]:1/ws", health: "http://[fe80::1%25eth0]:1/health"},
		{raw: "http://h/a%2Fb/", socket: "ws://h/a%2Fb/ws", health: "http://h/a%2Fb/health"},
		{raw: "http://h/a b/ü", socket: "ws://h/a%20b/%C3%BC/ws", health: "http://h/a%20b/%C3%BC/health"},
		{raw: "http://h/a%2Fws", socket: "ws://h/a%2Fws/ws", health: "http://h/a%2Fws/health"},
		{raw: "http://h/news", socket: "ws://h/news/ws", health: "http://h/news/health"},
		{raw: "http://h/a//", socket: "ws://h/a/ws", health: "http://h/a/health"},
		{raw: "http://h/WS", socket: "ws://h/WS/ws", health: "http://h/WS/health"},
		{raw: "http://user:secret@h/p", socket: "ws://user:secret@h/p/ws", health: "http://user:secret@h/p/health", shown: "http://h/p"},
		{raw: "user:secret@h:1", socket: "ws://user:secret@h:1/ws", health: "http://user:secret@h:1/health", shown: "http://h:1"},
		{raw: "http://h:65535", socket: "ws://h:65535/ws", health: "http://h:65535/health"},
		// The one way to name a prefix that is called ws.
		{raw: "http://h/ws/ws", socket: "ws://h/ws/ws", health: "http://h/ws/health"},
	} {
		t.Run(test.raw, func(t *testing.T) {
			b, err := netx.ParseBase(test.raw)
			if err != nil {
				t.Fatal(err)
			}
			if test.shown == "" {
				test.shown = strings.TrimSuffix(test.health, "/health")
			}
			if got := b.Socket(nil).String(); got != test.socket {
				t.Errorf("socket: got %s, want %s", got, test.socket)
			}
			if got := b.HTTP("/health").String(); got != test.health {
				t.Errorf("health: got %s, want %s", got, test.health)
			}
			if got := b.String(); got != test.shown {
				t.Errorf("string: got %s, want %s", got, test.shown)
			}
			shown := strings.Replace(test.shown, "http", "ws", 1) + "/ws"
			if got := b.SocketString(); got != shown {
				t.Errorf("socket string: got %s, want %s", got, shown)
			}
		})
	}
}

func TestSocketQuery(t *testing.T) {
	extra := url.Values{"session_id": {"a b&c"}}
	for raw, want := range map[string]string{
		"http://h":          "ws://h/ws?session_id=a+b%26c",
		"http://h/p/?x=%2F": "ws://h/p/ws?x=%2F&session_id=a+b%26c",
	} {
		b, err := netx.ParseBase(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Socket(extra).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := b.Socket(nil).String(); strings.Contains(got, "session_id") {
			t.Errorf("the base kept the parameter: %s", got)
		}
	}
}

func TestParseBaseRefuses(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"nothing", "", "empty"},
		{"blanks", " \t\n", "empty"},
		{"another scheme", "ftp://h", `scheme "ftp"`},
		{"a file", "file:///etc/passwd", `scheme "file"`},
		{"no host", "http://", "no host"},
		{"no host but a path", "http:///ws", "no host"},
		{"no host but a port", "http://:80", "no host"},
		{"no scheme", "://h", "missing protocol scheme"},
		{"fragment", "http://h/#top", "fragment"},
		{"a port that is a word", "http://h:http", "invalid port"},
		{"a port out of range", "http://h:65536", "port 65536 is out of range"},
		{"bad escape", "http://h/%zz", "invalid URL escape"},
		{"open bracket", "http://[::1", "missing ']'"},
		{"control character", "http://h/\x00", "control character"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := netx.ParseBase(test.raw)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "base URL") {
				t.Errorf("got %v, %v, want an error with %q", b, err, test.want)
			}
		})
	}
}

func TestParseBaseErrorsKeepSecrets(t *testing.T) {
	for _, raw := range []string{
		"http://user:s3cret@h:port", "http://user:s3cret/x@h", "http://user:s3c%zzs3cret@h", "user:s3cret@", "ftp://user:s3cret@h", "http://user:s3cret@h/%zz",
		"http://h:1x/?token=s3cret", "http://user:s3cret@h/#x", "http://[::1?token=s3cret", "http://h/%zz?token=s3cret", "http://h/\x00?token=s3cret",
	} {
		if b, err := netx.ParseBase(raw); err == nil || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: got %v, %v, want an error without the secret", raw, b, err)
		}
	}
	b, err := netx.ParseBase("http://user:s3cret@h/p?token=s3cret")
	if err != nil || strings.Contains(b.String()+b.SocketString(), "s3cret") {
		t.Errorf("got %s, %s, %v, want no secret", b, b.SocketString(), err)
	}
}

func FuzzParseBase(f *testing.F) {
	for _, raw := range []string{
		"http://h:1/", "https://h/p?x=1", "ws://h/ws", "HTTP://h", "h:1", "http://[::1]:1", "http://[fe80::1%25eth0]", "http://u:p@h/a%2Fb/ws/", "ftp://h", "h/p?u=http://x",
		"http://h/ws/ws", "//h", "http:h", "http://é/ü?ö", "http://h:", "http://h/%77s", "a://b@c:d/e?f#g", "http://h/*", "http://%41", "http://h/;a?b;c",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		b, err := netx.ParseBase(raw)
		if err != nil {
			return
		}
		socket := b.Socket(nil)
		if !strings.HasSuffix(socket.EscapedPath(), "/ws") || socket.Scheme != "ws" && socket.Scheme != "wss" || socket.Hostname() == "" {
			t.Errorf("%q: socket %s", raw, socket)
		}
		if back, err := url.Parse(socket.String()); err != nil || back.Host != socket.Host || back.EscapedPath() != socket.EscapedPath() {
			t.Errorf("%q: socket %s reads back as %v, %v", raw, socket, back, err)
		}
		// What is shown names the same server, but for user and query.
		for _, shown := range []string{b.String(), b.SocketString()} {
			if shown == b.String() && strings.HasSuffix(shown, "/ws") {
				continue // the socket's address of another base
			}
			again, err := netx.ParseBase(shown)
			if err != nil {
				t.Errorf("%q is shown as %q, which is refused: %v", raw, shown, err)
				continue
			}
			want := b.Socket(nil)
			want.User, want.RawQuery = nil, ""
			if got := again.Socket(nil); !reflect.DeepEqual(got, want) {
				t.Errorf("%q is shown as %q, which is %+v, want %+v", raw, shown, got, want)
			}
		}
	})
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost":        true,
		"LOCALHOST":        true,
		"localhost.":       true,
		"127.0.0.1":        true,
		"127.8.9.1":        true,
		"::1":              true,
		"[::1]":            true,
		"0:0:0:0:0:0:0:1":  true,
		"::ffff:127.0.0.1": true,

		"my-localhost-proxy.example.com": false,
		"localhost.example.com":          false,
		"127.0.0.1.example.com":          false,
		"example.com":                    false,
		"10.0.0.1":                       false,
		"0.0.0.0":                        false,
		"128.0.0.1":                      false,
		"127.1":                          false,
		"::":                             false,
		"::2":                            false,
		"::ffff:10.0.0.1":                false,
		"":                               false,
	} {
		if got := netx.IsLoopback(host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}
