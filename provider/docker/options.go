package docker

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/provider/internal/engine"
)

// Option configures a container. Options that name one thing of several (a variable,
// a volume, a label) can be repeated.
type Option interface{ apply(s *settings) error }

type optionFunc func(*settings) error

func (f optionFunc) apply(s *settings) error { return f(s) }

// option is one whose error is the configuration's.
func option(name string, set func(*settings) error) Option {
	return optionFunc(func(s *settings) error {
		if err := set(s); err != nil {
			return wrong(name, err)
		}
		return nil
	})
}

// Pull says when the image is fetched from its registry.
type Pull = engine.Pull

// The pull policies.
const (
	PullMissing = engine.Missing // the default
	PullAlways  = engine.Always
	PullNever   = engine.Never
)

// Progress is a line of a pull's progress.
type Progress = engine.Progress

// Defaults of the options.
const (
	DefaultReadyTimeout = engine.DefaultReadyTimeout
	DefaultGrace        = engine.DefaultGrace
)

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

const hostNetwork = "host"

type settings struct {
	engine.Settings

	publish string
	network string
	client  []openenv.Option
}

func wrong(setting string, err error) error { return engine.Wrong("docker", setting, err) }

func newSettings(opts []Option) (*settings, error) {
	s := &settings{Settings: engine.Defaults()}
	for _, o := range opts {
		if o == nil {
			return nil, wrong("options", errors.New("one is nil"))
		}
		if err := o.apply(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// WithEnv adds variables to the container's environment, which is otherwise its
// image's. Given more than once, it adds up.
func WithEnv(variables map[string]string) Option {
	variables = maps.Clone(variables)
	return option("WithEnv", func(s *settings) error { return s.AddEnv(variables) })
}

// WithVolume shows source in the container as target. Source is an absolute path on
// the engine's machine or the name of a volume; mode is "", "ro", "rw", "z", "Z" or
// several with commas between. A named volume outlives the container.
func WithVolume(source, target, mode string) Option {
	return option("WithVolume", func(s *settings) error { return s.AddVolume(source, target, mode) })
}

// WithPort is where the environment serves inside the container. Default the single
// port that the image exposes, 8000 if it exposes none.
func WithPort(port int) Option {
	return option("WithPort", func(s *settings) error { return s.SetPort(port) })
}

// WithPublishAddress is the address of the engine's machine on which the port is
// published. Default 127.0.0.1: anything else can be reached by others, and an
// environment asks nobody who he is.
func WithPublishAddress(ip string) Option {
	return option("WithPublishAddress", func(s *settings) error {
		_, err := netip.ParseAddr(ip)
		s.publish = ip
		return err
	})
}

// WithMemory limits the container's memory, swap included. Default no limit.
func WithMemory(bytes int64) Option {
	return option("WithMemory", func(s *settings) error { return s.SetMemory(bytes) })
}

// WithCPUs limits the container's processor time: 1.5 is one and a half processors.
func WithCPUs(n float64) Option {
	return option("WithCPUs", func(s *settings) error { return s.SetCPUs(n) })
}

// WithNetwork joins the container to a network instead of the default one. "host" is
// the machine's own: nothing is published there, and the port must be free.
func WithNetwork(name string) Option {
	return option("WithNetwork", func(s *settings) error {
		if name == "" || name == "none" || strings.HasPrefix(name, "container:") {
			return fmt.Errorf("%q has no port to publish", name)
		}
		s.network = name
		return nil
	})
}

// WithPlatform chooses among an image's platforms: os/architecture[/variant].
func WithPlatform(platform string) Option {
	return option("WithPlatform", func(s *settings) (err error) {
		s.Image.Platform, err = engine.ParsePlatform(platform)
		return err
	})
}

// WithLabel labels the container.
func WithLabel(key, value string) Option {
	return option("WithLabel", func(s *settings) error { return s.AddLabel(key, value) })
}

// WithUser runs the command as a user, by name or number, with a group after a colon.
func WithUser(user string) Option {
	return optionFunc(func(s *settings) error { s.User = user; return nil })
}

// WithCommand replaces the image's command: the arguments of its entrypoint if it has
// one, else the program and its arguments.
func WithCommand(args ...string) Option {
	return optionFunc(func(s *settings) error { s.Command = args; return nil })
}

// WithEntrypoint replaces the image's entrypoint.
func WithEntrypoint(args ...string) Option {
	return optionFunc(func(s *settings) error { s.Entrypoint = args; return nil })
}

// WithPull sets when the image is pulled.
func WithPull(when Pull) Option {
	return option("WithPull", func(s *settings) error { return s.SetPull(when) })
}

// WithProgress is told of a pull's progress, on the goroutine that starts.
func WithProgress(report func(Progress)) Option {
	return optionFunc(func(s *settings) error { s.Image.Progress = report; return nil })
}

// WithLogin pulls with an account of the image's registry instead of what the docker
// configuration has for it.
func WithLogin(username, password string) Option {
	return optionFunc(func(s *settings) error {
		s.Image.Login = &engine.Login{Username: username, Password: password}
		return nil
	})
}

// WithReadyTimeout limits how long the environment may take to become ready once its
// container runs; 0 leaves that to the context. Default DefaultReadyTimeout.
func WithReadyTimeout(limit time.Duration) Option {
	return option("WithReadyTimeout", func(s *settings) error { return s.SetReady(limit) })
}

// WithGrace is how long the container may take to end after TERM before it is killed.
// Default DefaultGrace; less when the ctx of Stop leaves less.
func WithGrace(grace time.Duration) Option {
	return option("WithGrace", func(s *settings) error { return s.SetGrace(grace) })
}

// WithHost is the engine's address instead of the one in DOCKER_HOST.
func WithHost(host string) Option {
	return optionFunc(func(s *settings) error { s.Host = host; return nil })
}

// WithLogger takes the engine's warnings.
func WithLogger(l *slog.Logger) Option {
	return option("WithLogger", func(s *settings) error { return s.SetLogger(l) })
}

// WithClient gives options to the client that FromImage makes. New, whose client is
// made by others, refuses it.
func WithClient(opts ...openenv.Option) Option {
	return optionFunc(func(s *settings) error { s.client = append(s.client, opts...); return nil })
}
