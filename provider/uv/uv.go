// Package uv runs the server of a Python OpenEnv project by "uv run", from a
// directory or from a git repository:
//
//	p := uv.New("git+https://github.com/org/envs@v1.2#subdirectory=echo_env")
//	env, err := openenv.FromProvider(ctx, openenv.Generic, p)
//
// uv installs what the project needs into an environment of its own, starts uvicorn
// in it, and both end with [Provider.Stop]. A repository is cloned into a temporary
// directory first, which goes with the server. Programs needed are uv, and git for a
// repository.
//
// The project's code is run with the rights of this program: use only projects that
// you trust, and containers for others.
package uv

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/process"
)

// Provider runs a project. It serves one client: calls of Start, WaitReady and Stop
// must not overlap.
type Provider struct {
	source string
	set    settings

	server *process.Provider // nil when it is not started
	clone  string            // the temporary directory, empty without one
}

var _ provider.Provider = (*Provider)(nil)

// New makes a provider of the project in source: a directory, or git+URL[@revision]
// where URL is of the scheme https, http, ssh, git or file, the revision is a branch,
// a tag or a whole commit id, and "#subdirectory=path" may follow. Credentials in the
// URL are given to git and never shown.
//
// Nothing runs before Start, which reports what is missing or wrong as a
// [*provider.ConfigError].
func New(source string, opts ...Option) *Provider {
	p := &Provider{source: source, set: defaults()}
	for _, o := range opts {
		o(&p.set)
	}
	return p
}

// Start clones the project, if it is in a repository, and runs uv. It does not wait
// until uv has installed what the project needs.
func (p *Provider) Start(ctx context.Context) (provider.Endpoint, error) {
	if p.server != nil {
		return provider.Endpoint{}, errors.New("uv provider: already started")
	}
	if err := p.removeClone(); err != nil { // of a start that failed
		return provider.Endpoint{}, err
	}
	endpoint, err := p.start(ctx)
	if err != nil {
		return provider.Endpoint{}, errors.Join(err, p.removeClone())
	}
	return endpoint, nil
}

func (p *Provider) start(ctx context.Context) (provider.Endpoint, error) {
	var none provider.Endpoint
	src, err := parseSource(p.source)
	if err != nil {
		return none, err
	}
	if err := p.set.check(); err != nil {
		return none, err
	}
	program, err := find("uv", p.set.program, "install it with `pip install uv`, or see https://docs.astral.sh/uv")
	if err != nil {
		return none, err
	}
	if ctx.Err() != nil {
		return none, fmt.Errorf("start %s: %w", src, context.Cause(ctx))
	}
	dir := src.dir
	if src.git() {
		p.clone, err = clone(ctx, src, &p.set)
		if err != nil {
			return none, err
		}
		dir = src.within(p.clone)
	}
	proj, err := readProject(dir, src)
	if err != nil {
		return none, err
	}
	server := process.New(p.set.command(program, proj), p.set.options(proj, p.clone)...)
	endpoint, err := server.Start(ctx)
	if wrong, ok := errors.AsType[*provider.ConfigError](err); ok {
		return none, &provider.ConfigError{Provider: name, Setting: wrong.Setting, Err: wrong.Err}
	}
	if err != nil {
		return none, err
	}
	p.server = server
	return endpoint, nil
}

// WaitReady waits until the project's server is healthy. The first start on a machine
// takes as long as installing all that the project needs. When uv or the server end,
// that is a [*provider.ExitError], when the time does, a [*provider.NotReadyError].
func (p *Provider) WaitReady(ctx context.Context) error {
	if p.server == nil {
		return errors.New("uv provider: not started")
	}
	return p.server.WaitReady(ctx)
}

// Stop ends uv, the server and their children, and removes the clone.
func (p *Provider) Stop(ctx context.Context) error {
	if p.server != nil {
		if err := p.server.Stop(ctx); err != nil {
			return err
		}
		p.server = nil
	}
	return p.removeClone()
}

func (p *Provider) removeClone() error {
	if p.clone == "" {
		return nil
	}
	if err := os.RemoveAll(p.clone); err != nil {
		return fmt.Errorf("remove the clone: %w", err)
	}
	p.clone = ""
	return nil
}
