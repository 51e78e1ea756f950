// Package docker runs an environment in a container of the local engine, through the
// engine's API:
//
//	env, err := docker.FromImage(ctx, echo.Spec, "registry.example.com/echo:1.2",
//		docker.WithMemory(512<<20), docker.WithReadyTimeout(5*time.Minute))
//	if err != nil {
//		return err
//	}
//	defer env.Close() // stops and removes the container
//
// The image is pulled when it is absent, the port published on 127.0.0.1 where the
// engine finds a free one. Whatever fails, the container is removed, with its
// anonymous volumes; what a killed program left behind, [Prune] finds by its label.
//
// The engine is the one that DOCKER_HOST names, or the default socket.
package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/internal/engine"
)

// undoLimit bounds what a failed Start does about it: the rest is left to Stop.
const undoLimit = 15 * time.Second

// Provider runs one container. It implements provider.Provider.
type Provider struct {
	set    *settings
	engine *engine.Engine
	wrong  error // what Start reports instead of starting

	mu  sync.Mutex
	box *box // nil while there is none
}

// box is the container, from before its creation until its absence is confirmed.
type box struct {
	name string // also its handle: there is no id yet while it is being created
	url  string
}

var _ provider.Provider = (*Provider)(nil)

// New makes a provider that runs image. It does no I/O. What is missing or wrong is
// reported by Start, as a [*provider.ConfigError], before anything is asked of the
// engine.
func New(image string, opts ...Option) *Provider {
	p := newProvider(image, opts)
	if p.wrong == nil && len(p.set.client) > 0 {
		p.wrong = wrong("WithClient", errors.New("only FromImage makes a client"))
	}
	return p
}

func newProvider(image string, opts []Option) *Provider {
	p := new(Provider)
	p.set, p.wrong = newSettings(opts)
	if p.wrong == nil {
		p.set.Image.Ref = image
		p.wrong = p.connect()
	}
	return p
}

func (p *Provider) connect() error {
	if err := engine.CheckRef(p.set.Image.Ref); err != nil {
		return wrong("image", err)
	}
	e, err := engine.Connect(p.set.Host)
	if err != nil {
		return wrong("engine", err)
	}
	if e.RemoteHost() != "" && p.set.publish == "" && p.set.network != hostNetwork {
		return wrong("WithPublishAddress", fmt.Errorf("the engine is on %s, where 127.0.0.1 cannot be reached from here: choose an address of that machine", e.RemoteHost()))
	}
	p.engine = e
	return nil
}

// Name is the container's name, "" while there is none.
func (p *Provider) Name() string {
	if b := p.current(); b != nil {
		return b.name
	}
	return ""
}

func (p *Provider) current() *box {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.box
}

func (p *Provider) keep(b *box) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.box = b
}

// Start pulls the image if it has to, creates a container and starts it. When it
// fails the container is removed again, and the error has the end of its log.
func (p *Provider) Start(ctx context.Context) (provider.Endpoint, error) {
	if p.wrong != nil {
		return provider.Endpoint{}, p.wrong
	}
	defer p.engine.Close()
	if b := p.current(); b != nil {
		return provider.Endpoint{}, fmt.Errorf("docker provider: container %s is there already: stop it first", b.name)
	}
	image, err := p.engine.Ensure(ctx, p.set.Image)
	if err != nil {
		return provider.Endpoint{}, fmt.Errorf("docker provider: %w", err)
	}
	port, err := engine.Port(p.set.Image.Ref, image, p.set.Port)
	if err != nil {
		return provider.Endpoint{}, fmt.Errorf("docker provider: %w", err)
	}
	b := &box{name: engine.Name(p.set.Image.Ref)}
	p.keep(b)
	if err := p.run(ctx, b, port); err != nil {
		err = fmt.Errorf("docker provider: %w", err)
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return provider.Endpoint{}, errors.Join(err, p.remove(undo, 0))
	}
	return provider.Endpoint{URLs: []string{b.url}}, nil
}

// run creates and starts the container and learns its address.
func (p *Provider) run(ctx context.Context, b *box, port network.Port) error {
	if err := p.create(ctx, b, port); err != nil {
		return fmt.Errorf("create container of %s: %w", p.set.Image.Ref, p.engine.Explain(err))
	}
	if _, err := p.engine.ContainerStart(ctx, b.name, client.ContainerStartOptions{}); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("start container %s: %w", b.name, context.Cause(ctx))
		}
		return fmt.Errorf("start container %s of %s: %w", b.name, p.set.Image.Ref, p.engine.Explain(err))
	}
	state, err := p.engine.ContainerInspect(ctx, b.name, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspect container %s: %w", b.name, p.engine.Explain(err))
	}
	address, ok := p.address(&state.Container, port)
	if !ok {
		if dead := p.died(ctx, b.name, state.Container.State); dead != nil {
			return dead // the engine gives a port back with its container
		}
		return fmt.Errorf("container %s: the engine has not published port %s", b.name, port)
	}
	b.url = "http://" + address
	return nil
}

// create is not cut short with its caller: an engine whose client hangs up may still
// make the container, after the removal by name has found nothing.
func (p *Provider) create(ctx context.Context, b *box, port network.Port) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	whole, cancel := engine.Linger(ctx, undoLimit)
	defer cancel()
	made, err := p.engine.ContainerCreate(whole, p.set.container(b.name, port))
	for _, w := range made.Warnings {
		p.set.Logger.Warn("docker: "+w, "container", b.name)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// address is where the container can be reached.
func (p *Provider) address(c *container.InspectResponse, port network.Port) (string, bool) {
	host := p.engine.RemoteHost()
	if p.set.network == hostNetwork {
		if host == "" {
			host = loopback.String()
		}
		return net.JoinHostPort(host, port.Port()), c.State != nil && c.State.Running
	}
	if c.NetworkSettings == nil {
		return "", false
	}
	for _, b := range c.NetworkSettings.Ports[port] {
		if b.HostPort == "" {
			continue
		}
		if b.HostIP.IsValid() && !b.HostIP.IsUnspecified() {
			host = b.HostIP.String()
		} else if host == "" {
			host = loopback.String()
		}
		return net.JoinHostPort(host, b.HostPort), true
	}
	return "", false
}
