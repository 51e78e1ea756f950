package swarm

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/openenv-go/openenv/provider/internal/engine"
)

// Option configures a service. Options that name one thing of several (a variable, a
// volume, a label, a constraint) can be repeated.
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
	DefaultReplicas     = 2
	DefaultReadyTimeout = engine.DefaultReadyTimeout
	DefaultGrace        = engine.DefaultGrace
)

type settings struct {
	engine.Settings

	replicas    int
	autoInit    bool
	ingress     bool
	network     string
	constraints []string
}

func wrong(setting string, err error) error { return engine.Wrong("swarm", setting, err) }

func newSettings(opts []Option) (*settings, error) {
	s := &settings{Settings: engine.Defaults(), replicas: DefaultReplicas}
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

// WithReplicas sets how many containers serve. Default DefaultReplicas; see also
// [Provider.Scale].
func WithReplicas(n int) Option {
	return option("WithReplicas", func(s *settings) error {
		if n < 1 {
			return fmt.Errorf("%d is below 1", n)
		}
		s.replicas = n
		return nil
	})
}

// WithAutoInit lets Start make a swarm of this one engine if it is in none. It listens
// on loopback alone, and stays: `docker swarm leave --force` ends it.
func WithAutoInit() Option {
	return optionFunc(func(s *settings) error { s.autoInit = true; return nil })
}

// WithIngress publishes one port for all replicas through the swarm's own balancer. A
// session still stays with its replica, being one connection, but which one that is
// nobody chooses, and what is asked over HTTP goes anywhere. It needs IPVS in the
// kernel of each node.
func WithIngress() Option {
	return optionFunc(func(s *settings) error { s.ingress = true; return nil })
}

// WithNetwork joins the replicas to an overlay network, beside the published ports. It
// is made if there is none, and then removed with the service.
func WithNetwork(name string) Option {
	return option("WithNetwork", func(s *settings) error {
		if name == "" {
			return errors.New("name is empty")
		}
		s.network = name
		return nil
	})
}

// WithConstraint limits the nodes that replicas may run on: node.labels.gpu==true.
func WithConstraint(constraint string) Option {
	return option("WithConstraint", func(s *settings) error {
		if constraint == "" {
			return errors.New("constraint is empty")
		}
		s.constraints = append(s.constraints, constraint)
		return nil
	})
}

// WithEnv adds variables to the replicas' environment, which is otherwise their
// image's. Given more than once, it adds up.
func WithEnv(variables map[string]string) Option {
	variables = maps.Clone(variables)
	return option("WithEnv", func(s *settings) error { return s.AddEnv(variables) })
}

// WithVolume shows source in each replica as target. Source is an absolute path, on
// the node where the replica runs, or the name of a volume; mode is "", "ro" or "rw".
func WithVolume(source, target, mode string) Option {
	return option("WithVolume", func(s *settings) error {
		if mode != "" && mode != "ro" && mode != "rw" {
			return fmt.Errorf("mode %q is none of ro, rw", mode)
		}
		return s.AddVolume(source, target, mode)
	})
}

// WithPort is where the environment serves inside the container. Default the single
// port that the image exposes, 8000 if it exposes none; for that the image is pulled
// to this engine.
func WithPort(port int) Option {
	return option("WithPort", func(s *settings) error { return s.SetPort(port) })
}

// WithMemory limits each replica's memory. Default no limit.
func WithMemory(bytes int64) Option {
	return option("WithMemory", func(s *settings) error { return s.SetMemory(bytes) })
}

// WithCPUs limits each replica's processor time: 1.5 is one and a half processors.
func WithCPUs(n float64) Option {
	return option("WithCPUs", func(s *settings) error { return s.SetCPUs(n) })
}

// WithLabel labels the service and its containers.
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

// WithPull sets when the image is pulled to this engine, to learn its port. The nodes
// have their own rule: they ask the registry at each start.
func WithPull(when Pull) Option {
	return option("WithPull", func(s *settings) error { return s.SetPull(when) })
}

// WithProgress is told of a pull's progress, on the goroutine that starts.
func WithProgress(report func(Progress)) Option {
	return optionFunc(func(s *settings) error { s.Image.Progress = report; return nil })
}

// WithLogin pulls with an account of the image's registry, here and on the nodes,
// instead of what the docker configuration has for it.
func WithLogin(username, password string) Option {
	return optionFunc(func(s *settings) error {
		s.Image.Login = &engine.Login{Username: username, Password: password}
		return nil
	})
}

// WithReadyTimeout limits how long it may take until a replica runs, and again until
// one is ready; 0 leaves that to the context. Default DefaultReadyTimeout.
func WithReadyTimeout(limit time.Duration) Option {
	return option("WithReadyTimeout", func(s *settings) error { return s.SetReady(limit) })
}

// WithGrace is how long a replica may take to end after TERM before it is killed.
// Default DefaultGrace.
func WithGrace(grace time.Duration) Option {
	return option("WithGrace", func(s *settings) error { return s.SetGrace(grace) })
}

// WithHost is the manager's address instead of the one in DOCKER_HOST.
func WithHost(host string) Option {
	return optionFunc(func(s *settings) error { s.Host = host; return nil })
}

// WithLogger takes the engine's warnings.
func WithLogger(l *slog.Logger) Option {
	return option("WithLogger", func(s *settings) error { return s.SetLogger(l) })
}
