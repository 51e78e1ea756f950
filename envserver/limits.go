package envserver

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

func duration(name string, d time.Duration, set func(*settings)) Option {
	return optionFunc(func(s *settings) error {
		if d < 0 {
			return fmt.Errorf("%s: negative duration %v", name, d)
		}
		set(s)
		return nil
	})
}

// WithMaxMessageSize limits a message or an HTTP body received, in bytes. Default 100
// MiB, 0 none.
func WithMaxMessageSize(bytes int64) Option {
	return optionFunc(func(s *settings) error {
		if bytes < 0 {
			return fmt.Errorf("WithMaxMessageSize: negative size %d", bytes)
		}
		s.maxMessage = bytes
		return nil
	})
}

// WithKeepalive sets the server's pings and how soon after one something must arrive
// from the client, or its slot is free again. Default 20 s and 20 s, as the Python
// server; interval 0 sends none.
func WithKeepalive(interval, timeout time.Duration) Option {
	return optionFunc(func(s *settings) error {
		if interval < 0 || timeout < 0 {
			return errors.New("WithKeepalive: negative duration")
		}
		s.pingInterval, s.pingTimeout = interval, timeout
		return nil
	})
}

// WithIdleTimeout ends a session on which nothing was asked for d. A session with a
// request in flight is never idle. Default 0, none, as the Python server.
func WithIdleTimeout(d time.Duration) Option {
	return duration("WithIdleTimeout", d, func(s *settings) { s.idleTimeout = d })
}

// WithFirstMessageTimeout ends a session whose client has not sent a first message
// within d. Default 0, none: a trainer may connect long before it resets.
func WithFirstMessageTimeout(d time.Duration) Option {
	return duration("WithFirstMessageTimeout", d, func(s *settings) { s.firstMessage = d })
}

// WithStepTimeout bounds each call on an environment. A call that takes longer is
// answered with EXECUTION_ERROR and its ctx ends; the environment gets no other call
// before that one has returned. Default 0, none.
func WithStepTimeout(d time.Duration) Option {
	return duration("WithStepTimeout", d, func(s *settings) { s.stepTimeout = d })
}

// WithWriteTimeout bounds the write of one reply. Default 1 minute, 0 none.
func WithWriteTimeout(d time.Duration) Option {
	return duration("WithWriteTimeout", d, func(s *settings) { s.writeTimeout = d })
}

// WithHeaderTimeout bounds the arrival of a request's headers, on the listeners that the
// server makes itself, and each pause within its body. Default 10 s, 0 none.
func WithHeaderTimeout(d time.Duration) Option {
	return duration("WithHeaderTimeout", d, func(s *settings) { s.headerTimeout = d })
}

// WithGrace is how long ListenAndServe and Serve let running calls finish when their
// ctx ends, before they are cancelled. Default 10 s.
func WithGrace(d time.Duration) Option {
	return duration("WithGrace", d, func(s *settings) { s.grace = d })
}

// WithToken asks every request but GET /health for the header "Authorization: Bearer
// token". It is checked before a session is made.
func WithToken(token string) Option {
	return optionFunc(func(s *settings) error {
		if strings.TrimSpace(token) == "" {
			return errors.New("WithToken: empty token")
		}
		s.token = token
		return nil
	})
}

// WithOrigins lets pages of these hosts use the server from a browser; patterns are
// those of path.Match. Without it only pages of the server's own host may; a server that
// listens on loopback knows no other name of its own than loopback's, so behind a proxy
// on the same machine the proxy's public host is listed here.
func WithOrigins(hosts ...string) Option {
	return optionFunc(func(s *settings) error {
		s.origins = append(s.origins, hosts...)
		return nil
	})
}
