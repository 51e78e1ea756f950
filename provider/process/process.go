// Package process runs an environment's server as a child process: a Go binary, a
// script, whatever serves.
//
//	p := process.New([]string{"./my-env", "--listen", "127.0.0.1:{port}"})
//	env, err := openenv.FromProvider(ctx, myenv.Spec, p)
//
// The provider chooses a free port of 127.0.0.1 and tells it to the command twice:
// as the environment variable PORT and in place of "{port}" in its arguments. The
// command has a process group of its own, which ends with [Provider.Stop] and with
// the program that started it, even when that is killed.
//
// It is not a shell: the command's words are passed on as they are.
package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/internal/proc"
	"github.com/openenv-go/openenv/provider"
)

// portTemplate stands for the port in the command's arguments.
const portTemplate = "{port}"

// Provider runs a command. It serves one client: calls of Start, WaitReady and Stop
// must not overlap. Pid and Output can be called at any time.
type Provider struct {
	command []string
	set     settings

	launch proc.Config // of the present server, for a second try
	proc   atomic.Pointer[proc.Process]
	port   *port
}

var _ provider.Provider = (*Provider)(nil)

// New makes a provider that runs command, the program and its arguments. Nothing
// runs before Start, which reports what is wrong with the command or an option as a
// [*provider.ConfigError].
func New(command []string, opts ...Option) *Provider {
	p := &Provider{command: command, set: defaults()}
	for _, o := range opts {
		o(&p.set)
	}
	return p
}

// Start starts the command and returns http://127.0.0.1:port, where it is expected
// to serve. It does not wait for that.
func (p *Provider) Start(ctx context.Context) (provider.Endpoint, error) {
	if p.proc.Load() != nil {
		return provider.Endpoint{}, errors.New("process provider: already started")
	}
	launch, err := p.config()
	if err != nil {
		return provider.Endpoint{}, err
	}
	if ctx.Err() != nil {
		return provider.Endpoint{}, fmt.Errorf("start %s: %w", p.name(), context.Cause(ctx))
	}
	port, err := reserve(ctx, p.set.port)
	if err != nil {
		return provider.Endpoint{}, fmt.Errorf("start %s: %w", p.name(), err)
	}
	number := strconv.Itoa(port.number)
	launch.Args = make([]string, len(p.command)-1)
	for i, arg := range p.command[1:] {
		launch.Args[i] = strings.ReplaceAll(arg, portTemplate, number)
	}
	launch.Env = append(launch.Env, p.set.portVariable+"="+number)
	started, err := proc.Start(launch)
	if err != nil {
		port.release()
		return provider.Endpoint{}, fmt.Errorf("start %s: %w", p.name(), err)
	}
	p.launch, p.port = launch, port
	p.proc.Store(started)
	return provider.Endpoint{URLs: []string{p.url()}}, nil
}

// WaitReady polls the server until it says that it is healthy. A command that exits
// first is reported at once as a [*provider.ExitError], one that is not ready in
// time as a [*provider.NotReadyError]; both have the end of its output.
func (p *Provider) WaitReady(ctx context.Context) error {
	if p.proc.Load() == nil {
		return errors.New("process provider: not started")
	}
	if limit := p.set.readyTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, limitError(limit))
		defer cancel()
	}
	err := p.poll(ctx)
	if refused, ok := errors.AsType[*provider.ExitError](err); ok && p.port.held() && addressInUse(refused.Tail) {
		// It was our reservation that it met: a server that does not set SO_REUSEADDR.
		if err := p.again(ctx); err != nil {
			return err
		}
		err = p.poll(ctx)
	}
	if err == nil {
		p.port.release()
	}
	return err
}

// limitError is the end of the time to become ready.
type limitError time.Duration

func (e limitError) Error() string      { return fmt.Sprintf("not healthy within %v", time.Duration(e)) }
func (limitError) Is(target error) bool { return target == context.DeadlineExceeded }

// poll waits for the server or for its end.
func (p *Provider) poll(ctx context.Context) error {
	base, err := netx.ParseBase(p.url())
	if err != nil {
		return err
	}
	// A transport of its own: no proxy, and no connection that stays.
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	server := p.proc.Load()
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	defer func() { cancel(); <-watched }()
	go func() { // ends a poll that is under way, and the pause after one
		defer close(watched)
		select {
		case <-server.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	err = netx.PollHealth(ctx, client, base, nil, nil)
	select {
	case <-server.Done(): // whoever answered, it was not the command
		exit := server.Exit()
		return &provider.ExitError{Name: p.name(), Code: exit.Code, Signal: exit.Signal, Tail: server.Tail()}
	default:
	}
	if err != nil {
		return &provider.NotReadyError{Name: p.name(), Err: err, Tail: server.Tail()}
	}
	return nil
}

// again starts the command a second time, at the same port, which is free now.
func (p *Provider) again(ctx context.Context) error {
	if err := p.proc.Load().Stop(ctx, p.set.grace); err != nil {
		return fmt.Errorf("stop %s: %w", p.name(), err)
	}
	p.port.release()
	started, err := proc.Start(p.launch)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name(), err) // the old process is kept: Stop accepts it
	}
	p.proc.Store(started)
	return nil
}

// Stop ends the command and everything that it started: SIGTERM to the group, after
// the grace SIGKILL. When ctx ends the grace does, too.
func (p *Provider) Stop(ctx context.Context) error {
	server := p.proc.Load()
	if server == nil {
		return nil
	}
	if err := server.Stop(ctx, p.set.grace); err != nil {
		return fmt.Errorf("stop %s: %w", p.name(), err)
	}
	p.port.release()
	p.proc.Store(nil)
	p.port = nil
	return nil
}

// Pid is the process of the command, 0 when it is not started.
func (p *Provider) Pid() int {
	if server := p.proc.Load(); server != nil {
		return server.Pid()
	}
	return 0
}

// Output is the end of what the command wrote, empty when it is not started.
func (p *Provider) Output() string {
	if server := p.proc.Load(); server != nil {
		return server.Tail()
	}
	return ""
}

func (p *Provider) url() string { return "http://127.0.0.1:" + strconv.Itoa(p.port.number) }

// name is the command in errors: its arguments can hold secrets.
func (p *Provider) name() string { return filepath.Base(p.command[0]) }
