package openenv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/openenv-go/openenv/provider"
)

// Option configures a client. The children of a client have the same options.
type Option interface{ apply(s *settings) error }

type optionFunc func(*settings) error

func (f optionFunc) apply(s *settings) error { return f(s) }

// settings are a family's options after New; they do not change.
type settings struct {
	connectTimeout, messageTimeout time.Duration
	closeTimeout                   time.Duration
	startTimeout, stopTimeout      time.Duration
	pingInterval, pingTimeout      *time.Duration // nil: the provider's advice, then the default
	maxMessage                     int64
	headers                        http.Header
	headerFunc                     func(context.Context) (http.Header, error)
	proxy                          func(*http.Request) (*url.URL, error)
	mode                           Mode
	provider                       provider.Provider
	logger                         *slog.Logger
	interceptors                   []Interceptor
	httpClient                     *http.Client
	retry                          Retry
	compression                    bool
	pipelining                     int
	keepOnCancel                   bool
	numbers                        bool
	managed                        bool
	resume                         *Resume
	trust                          bool
}

// Defaults of the limits, those of the Python client where it has the limit.
const (
	DefaultConnectTimeout = 10 * time.Second
	DefaultMessageTimeout = 60 * time.Second
	DefaultMaxMessageSize = 100 << 20
	DefaultPingInterval   = 20 * time.Second
	DefaultPingTimeout    = 20 * time.Second
	DefaultCloseTimeout   = 1 * time.Second
	DefaultStopTimeout    = 30 * time.Second
)

func newSettings(opts []Option) (*settings, error) {
	s := &settings{
		connectTimeout: DefaultConnectTimeout,
		messageTimeout: DefaultMessageTimeout,
		maxMessage:     DefaultMaxMessageSize,
		closeTimeout:   DefaultCloseTimeout,
		stopTimeout:    DefaultStopTimeout,
		logger:         slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("nil option")
		}
		if err := o.apply(s); err != nil {
			return nil, err
		}
	}
	if s.mode == "" {
		mode, err := defaultMode()
		if err != nil {
			return nil, err
		}
		s.mode = mode
	}
	if err := checkResume(s); err != nil {
		return nil, err
	}
	if s.proxy != nil && s.httpClient != nil && s.httpClient.Transport != nil {
		if _, ok := s.httpClient.Transport.(*http.Transport); !ok {
			return nil, fmt.Errorf("WithProxy: the transport of WithHTTPClient is a %T, its proxy cannot be set", s.httpClient.Transport)
		}
	}
	return s, nil
}

// ModeOf is the mode that a client with these options has: for packages that build
// their clients on this one. The error is the one that [New] would return.
func ModeOf(opts ...Option) (Mode, error) {
	s, err := newSettings(opts)
	if err != nil {
		return "", err
	}
	return s.mode, nil
}

func duration(name string, set func(*settings, time.Duration), d time.Duration) Option {
	return optionFunc(func(s *settings) error {
		if d < 0 {
			return fmt.Errorf("%s: negative duration %v", name, d)
		}
		set(s, d)
		return nil
	})
}

// WithConnectTimeout bounds one dial: name, proxy, TLS and upgrade. Default 10 s, 0 none.
func WithConnectTimeout(d time.Duration) Option {
	return duration("WithConnectTimeout", func(s *settings, d time.Duration) { s.connectTimeout = d }, d)
}

// WithMessageTimeout bounds a whole round trip, from the write of a request, or from
// the reply before it when requests are pipelined, to its reply. It bounds HTTP calls
// and the wait for admission, too. Default 60 s, 0 none.
func WithMessageTimeout(d time.Duration) Option {
	return duration("WithMessageTimeout", func(s *settings, d time.Duration) { s.messageTimeout = d }, d)
}

// WithCloseTimeout bounds the close of one socket. Default 1 s; 0 drops the socket
// without waiting for the server.
func WithCloseTimeout(d time.Duration) Option {
	return duration("WithCloseTimeout", func(s *settings, d time.Duration) { s.closeTimeout = d }, d)
}

// WithStartTimeout bounds a provider's start until it is ready. Default 0, none.
func WithStartTimeout(d time.Duration) Option {
	return duration("WithStartTimeout", func(s *settings, d time.Duration) { s.startTimeout = d }, d)
}

// WithStopTimeout bounds a provider's stop. Default 30 s, 0 none.
func WithStopTimeout(d time.Duration) Option {
	return duration("WithStopTimeout", func(s *settings, d time.Duration) { s.stopTimeout = d }, d)
}

// WithPingInterval sets the time between two keepalive pings. Default 20 s, or the
// provider's advice; 0 sends none, for tunnels that drop control frames.
func WithPingInterval(d time.Duration) Option {
	return duration("WithPingInterval", func(s *settings, d time.Duration) { s.pingInterval = &d }, d)
}

// WithPingTimeout sets how soon after a ping something must arrive; any byte counts,
// a slow download is not a dead connection. Default 20 s, or the provider's advice; 0
// never gives up.
func WithPingTimeout(d time.Duration) Option {
	return duration("WithPingTimeout", func(s *settings, d time.Duration) { s.pingTimeout = &d }, d)
}

// WithMaxMessageSize limits a message received, in bytes. Default 100 MiB, 0 none.
// The server has a limit of its own for what is sent to it.
func WithMaxMessageSize(bytes int64) Option {
	return optionFunc(func(s *settings) error {
		if bytes < 0 {
			return fmt.Errorf("WithMaxMessageSize: negative size %d", bytes)
		}
		s.maxMessage = bytes
		return nil
	})
}

// WithHeaders sends headers with every upgrade and every HTTP call.
func WithHeaders(h http.Header) Option {
	h = h.Clone()
	return optionFunc(func(s *settings) error { s.headers = h; return nil })
}

// WithHeaderFunc calls f before each upgrade and each HTTP call, for tokens that
// rotate; its headers win over those of WithHeaders. f may be called concurrently.
func WithHeaderFunc(f func(context.Context) (http.Header, error)) Option {
	return optionFunc(func(s *settings) error {
		if f == nil {
			return errors.New("WithHeaderFunc: nil function")
		}
		s.headerFunc = f
		return nil
	})
}

// WithProxy sets the proxy policy of every connection of the client: the socket, the
// HTTP calls and the health polls. The default is the environment variables
// HTTP_PROXY, HTTPS_PROXY and NO_PROXY as they are when New is called, and never a
// proxy to this machine.
func WithProxy(policy func(*http.Request) (*url.URL, error)) Option {
	return optionFunc(func(s *settings) error {
		if policy == nil {
			return errors.New("WithProxy: nil policy; NoProxy is the policy without a proxy")
		}
		s.proxy = policy
		return nil
	})
}

// NoProxy is the policy of direct connections.
func NoProxy(*http.Request) (*url.URL, error) {
	return nil, nil //nolint:nilnil // no proxy and no error: net/http's own convention
}

// ProxyURL is the policy of one fixed proxy: http, https or socks5.
func ProxyURL(u *url.URL) func(*http.Request) (*url.URL, error) { return http.ProxyURL(u) }

// WithMode sets the mode; without it the variable OPENENV_CLIENT_MODE decides, and
// then ModeSimulation.
func WithMode(m Mode) Option {
	return optionFunc(func(s *settings) error {
		mode, err := ParseMode(string(m))
		if err != nil {
			return fmt.Errorf("WithMode: %w", err)
		}
		s.mode = mode
		return nil
	})
}

// WithProvider gives the client a provider. Without a base URL the client starts it
// when it first needs the server, and Close stops it; with one it is only stopped.
func WithProvider(p provider.Provider) Option {
	return optionFunc(func(s *settings) error {
		if p == nil {
			return errors.New("WithProvider: nil provider")
		}
		s.provider = p
		return nil
	})
}

// WithLogger sends the client's log there. Without it the client is silent.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(s *settings) error {
		if l == nil {
			return errors.New("WithLogger: nil logger")
		}
		s.logger = l
		return nil
	})
}

// WithInterceptor wraps every round trip of the session; the first is the outermost.
func WithInterceptor(is ...Interceptor) Option {
	return optionFunc(func(s *settings) error {
		for _, i := range is {
			if i == nil {
				return errors.New("WithInterceptor: nil interceptor")
			}
		}
		s.interceptors = append(s.interceptors, is...)
		return nil
	})
}

// WithHTTPClient takes transport, cookies and timeout for HTTP calls, and transport
// and cookies for upgrades, from c. Redirects are not followed in any case.
func WithHTTPClient(c *http.Client) Option {
	return optionFunc(func(s *settings) error {
		if c == nil {
			return errors.New("WithHTTPClient: nil client")
		}
		s.httpClient = c
		return nil
	})
}

// Retry says how a failed or refused dial is repeated: up to Attempts dials in all,
// with a pause that starts at Base, doubles, is lengthened by a little jitter and does
// not exceed Max (0: no cap).
type Retry struct {
	Attempts  int
	Base, Max time.Duration
}

// WithConnectRetry repeats failed and refused dials. The default is not to. An
// environment that is gone ([ErrGone]) is never dialled again.
func WithConnectRetry(r Retry) Option {
	return optionFunc(func(s *settings) error {
		if r.Attempts < 0 || r.Base < 0 || r.Max < 0 {
			return fmt.Errorf("WithConnectRetry: negative value in %+v", r)
		}
		if r.Attempts > 1 && r.Base == 0 {
			return errors.New("WithConnectRetry: Base is 0, which would be a reconnect storm")
		}
		s.retry = r
		return nil
	})
}

// WithCompression offers permessage-deflate to the server. Default off.
func WithCompression(on bool) Option {
	return optionFunc(func(s *settings) error { s.compression = on; return nil })
}

// WithPipelining lets up to n steps be on the wire before the first is answered, 16
// MiB at most: for replaying known actions. An error does not stop the steps behind
// it, what was sent is applied. Default off.
func WithPipelining(n int) Option {
	return optionFunc(func(s *settings) error {
		if n < 0 {
			return fmt.Errorf("WithPipelining: negative depth %d", n)
		}
		s.pipelining = n
		return nil
	})
}

// WithKeepOnCancel keeps the session when the caller of a Reset or Step leaves: the
// environment finishes the work and the late reply is discarded. Without it the
// socket is dropped, so that the server can cancel the work.
func WithKeepOnCancel() Option {
	return optionFunc(func(s *settings) error { s.keepOnCancel = true; return nil })
}

// WithNumbers decodes numbers in raw maps as json.Number instead of float64.
func WithNumbers() Option {
	return optionFunc(func(s *settings) error { s.numbers = true; return nil })
}
