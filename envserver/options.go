package envserver

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/openenv-go/openenv"
)

// Option configures a server.
type Option interface{ apply(*settings) error }

type optionFunc func(*settings) error

func (f optionFunc) apply(s *settings) error { return f(s) }

type settings struct {
	maxSessions   int
	concurrent    bool
	maxMessage    int64
	pingInterval  time.Duration
	pingTimeout   time.Duration
	closeTimeout  time.Duration
	writeTimeout  time.Duration
	headerTimeout time.Duration
	metadata      openenv.Metadata
	logger        *slog.Logger
}

func newSettings(opts []Option) (*settings, error) {
	s := &settings{
		maxSessions:   1,
		maxMessage:    openenv.DefaultMaxMessageSize,
		pingInterval:  20 * time.Second,
		pingTimeout:   20 * time.Second,
		closeTimeout:  time.Second,
		writeTimeout:  time.Minute,
		headerTimeout: 10 * time.Second,
		logger:        slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("nil option")
		}
		if err := o.apply(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// WithMaxSessions allows n sessions at once. Default 1. More needs an environment
// that implements [Concurrent], or [WithConcurrentSessions].
func WithMaxSessions(n int) Option {
	return optionFunc(func(s *settings) error {
		if n < 1 {
			return fmt.Errorf("WithMaxSessions: %d is below 1", n)
		}
		s.maxSessions = n
		return nil
	})
}

// WithConcurrentSessions declares for the environment that several of it may live in
// one process.
func WithConcurrentSessions() Option {
	return optionFunc(func(s *settings) error { s.concurrent = true; return nil })
}

// WithMaxMessageSize limits a message received, in bytes. Default 100 MiB, 0 none.
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
// from the client. Default 20 s and 20 s, as the Python server; interval 0 sends none.
func WithKeepalive(interval, timeout time.Duration) Option {
	return optionFunc(func(s *settings) error {
		if interval < 0 || timeout < 0 {
			return errors.New("WithKeepalive: negative duration")
		}
		s.pingInterval, s.pingTimeout = interval, timeout
		return nil
	})
}

// WithMetadata sets what GET /metadata says. An empty name is the Spec's, an empty
// description and version get the Python server's defaults.
func WithMetadata(m openenv.Metadata) Option {
	return optionFunc(func(s *settings) error { s.metadata = m; return nil })
}

// WithLogger sends the server's log there. Without it the server is silent.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(s *settings) error {
		if l == nil {
			return errors.New("WithLogger: nil logger")
		}
		s.logger = l
		return nil
	})
}
