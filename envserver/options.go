package envserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.opentelemetry.io/otel/trace"

	"github.com/openenv-go/openenv"
)

// Option configures a server.
type Option interface{ apply(s *settings) error }

type optionFunc func(*settings) error

func (f optionFunc) apply(s *settings) error { return f(s) }

type settings struct {
	maxSessions      int // 0: not set
	concurrent       bool
	mode             openenv.Mode
	strictProduction bool
	lockedThread     bool
	sharedThread     bool

	maxMessage    int64
	pingInterval  time.Duration
	pingTimeout   time.Duration
	closeTimeout  time.Duration
	writeTimeout  time.Duration
	headerTimeout time.Duration
	firstMessage  time.Duration
	idleTimeout   time.Duration
	lease         time.Duration
	stepTimeout   time.Duration
	grace         time.Duration
	replyBuffer   int // bytes

	token   string
	origins []string

	metadata  openenv.Metadata
	readme    func() (string, error)
	resetType reflect.Type
	types     map[reflect.Type]*jsonschema.Schema
	transform any
	logger    *slog.Logger
	tracer    trace.TracerProvider
}

// The variables that the Python server reads, too.
const (
	sessionsVariable = "MAX_CONCURRENT_ENVS"
	modeVariable     = "OPENENV_MODE"
)

func newSettings(opts []Option) (*settings, error) {
	s := &settings{
		maxMessage:    openenv.DefaultMaxMessageSize,
		pingInterval:  20 * time.Second,
		pingTimeout:   20 * time.Second,
		closeTimeout:  time.Second,
		writeTimeout:  time.Minute,
		headerTimeout: 10 * time.Second,
		lease:         2 * time.Minute,
		grace:         10 * time.Second,
		replyBuffer:   1 << 20,
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
	return s, s.fromEnvironment()
}

// fromEnvironment fills in what no option has set.
func (s *settings) fromEnvironment() error {
	if s.maxSessions == 0 {
		s.maxSessions = 1
		if text := os.Getenv(sessionsVariable); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("environment variable %s: %q is not a number of sessions, which is at least 1", sessionsVariable, text)
			}
			s.maxSessions = n
		}
	}
	if s.mode == "" {
		s.mode = openenv.ModeSimulation
		if text := os.Getenv(modeVariable); text != "" {
			mode, err := openenv.ParseMode(text)
			if err != nil {
				return fmt.Errorf("environment variable %s: %w", modeVariable, err)
			}
			s.mode = mode
		}
	}
	return nil
}

// WithMaxSessions allows n sessions at once. Without it the variable
// MAX_CONCURRENT_ENVS decides, and then 1. More than one needs an environment that
// implements [Concurrent], or [WithConcurrentSessions].
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

// WithMode sets the mode; without it the variable OPENENV_MODE decides, and then
// simulation. In production the HTTP routes reset, step and state do not exist; the
// session socket stays open for them, as it does on the Python server.
func WithMode(m openenv.Mode) Option {
	return optionFunc(func(s *settings) error {
		mode, err := openenv.ParseMode(string(m))
		if err != nil {
			return fmt.Errorf("WithMode: %w", err)
		}
		s.mode = mode
		return nil
	})
}

// WithStrictProduction closes the session socket's control frames in production mode,
// too: reset, step and state are answered with EXECUTION_ERROR, mcp frames work.
func WithStrictProduction() Option {
	return optionFunc(func(s *settings) error { s.strictProduction = true; return nil })
}

// WithLockedThread runs every call on an environment, its build and close included, on
// one OS thread of its own, for libraries that are bound to a thread.
func WithLockedThread() Option {
	return optionFunc(func(s *settings) error { s.lockedThread = true; return nil })
}

// WithSharedThread is WithLockedThread with one thread for all sessions.
func WithSharedThread() Option {
	return optionFunc(func(s *settings) error { s.lockedThread, s.sharedThread = true, true; return nil })
}

// WithMetadata sets what GET /metadata says. An empty name is the Spec's, an empty
// description and version get the Python server's defaults.
func WithMetadata(m openenv.Metadata) Option {
	return optionFunc(func(s *settings) error { s.metadata = m; return nil })
}

// WithReadme reads the README that GET /metadata carries from a file of fsys, once,
// when the server is made.
func WithReadme(fsys fs.FS, name string) Option {
	return optionFunc(func(s *settings) error {
		s.readme = func() (string, error) {
			b, err := fs.ReadFile(fsys, name)
			return string(b), err
		}
		return nil
	})
}

// WithResetObservation publishes T as the type of a reset's observation in /schema,
// for environments whose reset answers with other fields than a step.
func WithResetObservation[T any]() Option {
	return optionFunc(func(s *settings) error { s.resetType = reflect.TypeFor[T](); return nil })
}

// WithSchema describes the values of type T, wherever they stand in actions,
// observations and states, by a JSON Schema in place of the one that the Go type has:
// the words of an enum, bounds, a pattern, or the form of a type with JSON methods of
// its own. Actions are validated against it.
//
//	envserver.WithSchema[Move](`{"type": "string", "enum": ["up", "down"]}`)
func WithSchema[T any](schema string) Option {
	return optionFunc(func(s *settings) error {
		of := new(jsonschema.Schema)
		if err := json.Unmarshal([]byte(schema), of); err != nil {
			return fmt.Errorf("WithSchema[%s]: %w", reflect.TypeFor[T](), err)
		}
		if s.types == nil {
			s.types = make(map[reflect.Type]*jsonschema.Schema)
		}
		s.types[reflect.TypeFor[T]()] = of
		return nil
	})
}

// WithTransform passes every observation through f before it is sent. O must be the
// environment's observation type.
func WithTransform[O any](f func(openenv.StepResult[O]) (openenv.StepResult[O], error)) Option {
	return optionFunc(func(s *settings) error {
		if f == nil {
			return errors.New("WithTransform: nil function")
		}
		s.transform = f
		return nil
	})
}

// WithLogger sends the server's log there, with session ids. Without it the server is
// silent. The normal end of a session is not above debug level.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(s *settings) error {
		if l == nil {
			return errors.New("WithLogger: nil logger")
		}
		s.logger = l
		return nil
	})
}

// WithTracerProvider makes a span of every session and of every call in it.
func WithTracerProvider(tp trace.TracerProvider) Option {
	return optionFunc(func(s *settings) error {
		if tp == nil {
			return errors.New("WithTracerProvider: nil provider")
		}
		s.tracer = tp
		return nil
	})
}
