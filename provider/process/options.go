package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openenv-go/openenv/internal/proc"
	"github.com/openenv-go/openenv/provider"
)

// Defaults of the options.
const (
	DefaultPortVariable = "PORT"
	DefaultReadyTimeout = time.Minute
	DefaultGrace        = 10 * time.Second
)

// Option configures a provider. What it was given is checked by Start.
type Option func(*settings)

type settings struct {
	env          map[string]string
	dir          string
	port         int
	portVariable string
	readyTimeout time.Duration
	grace        time.Duration
	log          func(string)
	scratch      string
}

func defaults() settings {
	return settings{
		env:          map[string]string{},
		portVariable: DefaultPortVariable,
		readyTimeout: DefaultReadyTimeout,
		grace:        DefaultGrace,
	}
}

// WithEnv adds variables to the command's environment, which is otherwise that of
// this process. Given more than once, it adds up.
func WithEnv(variables map[string]string) Option {
	variables = maps.Clone(variables)
	return func(s *settings) { maps.Copy(s.env, variables) }
}

// WithDir sets the working directory. A program with a relative path is looked for
// in it, as are relative paths that the command uses.
func WithDir(dir string) Option { return func(s *settings) { s.dir = dir } }

// WithPort sets the port, instead of a free one. It must not be in use.
func WithPort(port int) Option { return func(s *settings) { s.port = port } }

// WithPortVariable names the environment variable that tells the port. Default PORT.
func WithPortVariable(name string) Option { return func(s *settings) { s.portVariable = name } }

// WithReadyTimeout limits how long the server may take to become ready; 0 leaves that
// to the context. Default one minute.
func WithReadyTimeout(limit time.Duration) Option {
	return func(s *settings) { s.readyTimeout = limit }
}

// WithGrace sets how long the command has between SIGTERM and SIGKILL. Default 10 s.
func WithGrace(grace time.Duration) Option { return func(s *settings) { s.grace = grace } }

// WithLog calls f with each line that the command or a child of it writes to
// standard output or standard error. f is called from one goroutine at a time; the
// command is held up while f does not return.
func WithLog(f func(line string)) Option { return func(s *settings) { s.log = f } }

// WithScratch names a directory that is of no use without the command. It is removed
// when this process dies without having stopped the command; otherwise it is left to
// whoever made it.
func WithScratch(dir string) Option { return func(s *settings) { s.scratch = dir } }

// config checks what New was given. The port is added later.
func (p *Provider) config() (proc.Config, error) {
	s := &p.set
	wrong := func(setting, format string, args ...any) (proc.Config, error) {
		return proc.Config{}, &provider.ConfigError{Provider: "process", Setting: setting, Err: fmt.Errorf(format, args...)}
	}
	if s.dir != "" {
		if info, err := os.Stat(s.dir); err != nil {
			return wrong("WithDir", "%w", err)
		} else if !info.IsDir() {
			return wrong("WithDir", "%s is not a directory", s.dir)
		}
	}
	if len(p.command) == 0 || p.command[0] == "" {
		return wrong("command", "no program is named")
	}
	path, err := find(p.command[0], s.dir)
	if err != nil {
		return wrong("command", "%w", err)
	}
	for i, arg := range p.command {
		if strings.ContainsRune(arg, 0) {
			return wrong("command", "word %d has a zero byte", i)
		}
	}
	env := os.Environ()
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		if !validName(name) || strings.ContainsRune(s.env[name], 0) {
			return wrong("WithEnv", "%q cannot be the name of a variable, or its value has a zero byte", name)
		}
		env = append(env, name+"="+s.env[name])
	}
	switch {
	case !validName(s.portVariable):
		return wrong("WithPortVariable", "%q cannot be the name of a variable", s.portVariable)
	case s.port < 0 || s.port > 65535:
		return wrong("WithPort", "%d is out of range", s.port)
	case s.readyTimeout < 0:
		return wrong("WithReadyTimeout", "%v is negative", s.readyTimeout)
	case s.grace < 0:
		return wrong("WithGrace", "%v is negative", s.grace)
	}
	return proc.Config{Path: path, Dir: s.dir, Env: env, Log: s.log, Orphan: s.grace, Scratch: s.scratch}, nil
}

// find returns the program's file: a bare name from PATH, a path relative to dir.
func find(name, dir string) (string, error) {
	if !filepath.IsAbs(name) && filepath.Base(name) != name {
		abs, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		name = abs
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("program %q does not exist: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

func validName(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }
