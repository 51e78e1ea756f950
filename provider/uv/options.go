package uv

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"time"

	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/process"
)

const name = "uv"

// Defaults of the options. The time to become ready is what a first start can need,
// which installs everything.
const (
	DefaultReadyTimeout = 10 * time.Minute
	DefaultCloneTimeout = 2 * time.Minute
	DefaultGrace        = 10 * time.Second
	DefaultApp          = "server.app:app"
)

// Option configures a provider. What it was given is checked by Start.
type Option func(*settings)

type settings struct {
	program                             string
	app                                 string
	env                                 map[string]string
	port                                int
	shared                              bool
	runArgs, serverArgs                 []string
	readyTimeout, cloneTimeout, gracing time.Duration
	log                                 func(string)
}

func defaults() settings {
	return settings{
		env:          map[string]string{},
		readyTimeout: DefaultReadyTimeout,
		cloneTimeout: DefaultCloneTimeout,
		gracing:      DefaultGrace,
	}
}

// WithProgram names uv's file, instead of the uv in PATH.
func WithProgram(path string) Option { return func(s *settings) { s.program = path } }

// WithApp names the ASGI application as module:attribute. Without it the project's
// openenv.yaml does, or else it is server.app:app.
func WithApp(app string) Option { return func(s *settings) { s.app = app } }

// WithEnv adds variables to the environment of uv and the server, which is otherwise
// that of this process. Given more than once, it adds up.
func WithEnv(variables map[string]string) Option {
	variables = maps.Clone(variables)
	return func(s *settings) { maps.Copy(s.env, variables) }
}

// WithPort sets the port, instead of a free one. It must not be in use.
func WithPort(port int) Option { return func(s *settings) { s.port = port } }

// WithRunArgs adds arguments for "uv run", such as "--frozen" or "--extra", "gpu".
func WithRunArgs(args ...string) Option {
	return func(s *settings) { s.runArgs = append(s.runArgs, args...) }
}

// WithServerArgs adds arguments for uvicorn, such as "--ws-max-size", "104857600".
func WithServerArgs(args ...string) Option {
	return func(s *settings) { s.serverArgs = append(s.serverArgs, args...) }
}

// WithProjectEnvironment uses the project's own environment, its .venv, which uv makes
// and brings up to date when needed. Otherwise each start gets a fresh environment,
// as the Python package does it, which leaves the project as it is and takes longer.
func WithProjectEnvironment() Option { return func(s *settings) { s.shared = true } }

// WithReadyTimeout limits how long installing and starting may take; 0 leaves that to
// the context. Default ten minutes.
func WithReadyTimeout(limit time.Duration) Option {
	return func(s *settings) { s.readyTimeout = limit }
}

// WithCloneTimeout limits how long cloning a repository may take. Default two minutes.
func WithCloneTimeout(limit time.Duration) Option {
	return func(s *settings) { s.cloneTimeout = limit }
}

// WithGrace sets how long uv and the server have between SIGTERM and SIGKILL. Default
// 10 s, which uv needs to remove the environment of this start.
func WithGrace(grace time.Duration) Option { return func(s *settings) { s.gracing = grace } }

// WithLog calls f with each line that git, uv and the server write. f is called from
// one goroutine at a time; they are held up while f does not return.
func WithLog(f func(line string)) Option { return func(s *settings) { s.log = f } }

func wrong(setting, format string, args ...any) error {
	return &provider.ConfigError{Provider: name, Setting: setting, Err: fmt.Errorf(format, args...)}
}

// check checks what process does not.
func (s *settings) check() error {
	if s.cloneTimeout <= 0 {
		return wrong("WithCloneTimeout", "%v is not a time limit", s.cloneTimeout)
	}
	if s.app != "" && !validApp(s.app) {
		return wrong("WithApp", "%q is not module:attribute", s.app)
	}
	return nil
}

// command is what the Python package runs.
func (s *settings) command(program string, proj *project) []string {
	command := []string{program, "run"}
	if !s.shared {
		command = append(command, "--isolated")
	}
	command = append(command, "--project", proj.dir)
	command = append(command, s.runArgs...)
	app := s.app
	if app == "" {
		app = proj.app
	}
	command = append(command, "--", "uvicorn", app, "--host", "127.0.0.1", "--port", "{port}", "--workers", "1")
	return append(command, s.serverArgs...)
}

func (s *settings) options(proj *project, scratch string) []process.Option {
	return []process.Option{
		process.WithEnv(map[string]string{"PYTHONUNBUFFERED": "1"}), // the last words of a crash
		process.WithEnv(s.env),
		process.WithDir(proj.dir), // uvicorn imports from here what is not installed
		process.WithPort(s.port),
		process.WithReadyTimeout(s.readyTimeout),
		process.WithGrace(s.gracing),
		process.WithLog(s.log),
		process.WithScratch(scratch),
	}
}

// find returns the file of a program that is needed.
func find(what, path, hint string) (string, error) {
	if path == "" {
		path = what
	}
	found, err := exec.LookPath(path)
	switch {
	case errors.Is(err, exec.ErrNotFound) && path == what:
		return "", wrong(what, "%w in PATH: %s", exec.ErrNotFound, hint)
	case err != nil:
		return "", wrong(what, "%w: %s", err, hint)
	}
	return found, nil
}

// validApp reports whether app is module:attribute, and no option of uvicorn's.
func validApp(app string) bool {
	module, attribute, ok := strings.Cut(app, ":")
	return ok && module != "" && attribute != "" && module[0] != '-' && !strings.ContainsAny(app, " \t\x00")
}
