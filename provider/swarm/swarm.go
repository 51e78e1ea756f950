// Package swarm runs an environment as a service of several replicas on a swarm of
// container engines:
//
//	p := swarm.New("registry.example.com/echo:1.2", swarm.WithReplicas(3))
//	env, err := openenv.FromProvider(ctx, echo.Spec, p)
//	if err != nil {
//		return err
//	}
//	defer env.Close() // removes the service
//	other, err := env.NewSession(ctx) // on the replica with the fewest
//
// Each replica publishes a port of its own on its node, and its address is read from
// its task. So the client knows the replicas apart: a session stays where it began, a
// new one goes where there is most room. The swarm's own balancer, which scatters
// connections, is an option ([WithIngress]).
//
// The engine that is spoken to must be a manager of the swarm.
package swarm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/internal/engine"
)

// undoLimit bounds what a failed Start does about it: the rest is left to Stop.
const undoLimit = 15 * time.Second

// Provider runs one service. It implements provider.Provider and provider.Replicated;
// Scale may be called at any time.
type Provider struct {
	set    *settings
	engine *engine.Engine
	wrong  error // what Start reports instead of starting

	mu      sync.Mutex
	service *service // nil while there is none
}

// service is what was made, from before its creation until its absence is confirmed.
type service struct {
	name     string // also its handle: there is no id yet while it is being created
	network  string // that was made for it, "" for none
	replicas int
	urls     []string
	serving  map[string]bool // the addresses that have answered
}

var (
	_ provider.Provider   = (*Provider)(nil)
	_ provider.Replicated = (*Provider)(nil)
)

// New makes a provider that runs image. It does no I/O. What is missing or wrong is
// reported by Start, as a [*provider.ConfigError], before anything is made.
func New(image string, opts ...Option) *Provider {
	p := new(Provider)
	p.set, p.wrong = newSettings(opts)
	if p.wrong != nil {
		return p
	}
	p.set.Image.Ref = image
	if err := engine.CheckRef(image); err != nil {
		p.wrong = wrong("image", err)
		return p
	}
	var err error
	if p.engine, err = engine.Connect(p.set.Host); err != nil {
		p.wrong = wrong("engine", err)
	}
	return p
}

// Name is the service's name, "" while there is none.
func (p *Provider) Name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.service == nil {
		return ""
	}
	return p.service.name
}

// Start makes the service and returns when its replicas run, or when one does and the
// others are late. When it fails the service is removed again.
func (p *Provider) Start(ctx context.Context) (provider.Endpoint, error) {
	if p.wrong != nil {
		return provider.Endpoint{}, p.wrong
	}
	defer p.engine.Close()
	if name := p.Name(); name != "" {
		return provider.Endpoint{}, fmt.Errorf("swarm provider: service %s is there already: stop it first", name)
	}
	if err := p.join(ctx); err != nil {
		return provider.Endpoint{}, err
	}
	port, err := p.port(ctx)
	if err != nil {
		return provider.Endpoint{}, fmt.Errorf("swarm provider: %w", err)
	}
	s := &service{name: engine.Name(p.set.Image.Ref), replicas: p.set.replicas, serving: map[string]bool{}}
	p.keep(s)
	err = p.create(ctx, s, port)
	if err == nil {
		err = p.awaitTasks(ctx, s)
	}
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return provider.Endpoint{}, errors.Join(err, p.remove(undo))
	}
	return provider.Endpoint{URLs: s.urls}, nil
}

func (p *Provider) keep(s *service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.service = s
}

func (p *Provider) current() (*service, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.service == nil {
		return nil, errors.New("swarm provider: not started")
	}
	return p.service, nil
}

// join makes sure that the engine is a manager. An engine's own swarm, made on
// demand, listens on loopback alone.
func (p *Provider) join(ctx context.Context) error {
	info, err := p.swarm(ctx)
	if err != nil || info.ControlAvailable {
		return err
	}
	switch {
	case info.LocalNodeState == swarm.LocalNodeStateActive:
		return wrong("engine", fmt.Errorf("%s is a worker of its swarm: name a manager", p.engine.DaemonHost()))
	case !p.set.autoInit:
		return wrong("WithAutoInit", fmt.Errorf("%s is in no swarm (%s): run `docker swarm init` there, or ask for it with this option", p.engine.DaemonHost(), info.LocalNodeState))
	}
	_, err = p.engine.SwarmInit(ctx, client.SwarmInitOptions{ListenAddr: "127.0.0.1:2377", AdvertiseAddr: "127.0.0.1"})
	if err == nil {
		return nil
	}
	// Somebody else may have been quicker.
	if info, again := p.swarm(ctx); again == nil && info.ControlAvailable {
		return nil
	}
	return fmt.Errorf("swarm provider: make a swarm: %w", p.engine.Explain(err))
}

func (p *Provider) swarm(ctx context.Context) (swarm.Info, error) {
	info, err := p.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return swarm.Info{}, fmt.Errorf("swarm provider: %w", p.engine.Explain(err))
	}
	return info.Info.Swarm, nil
}

// port is where the image serves. With a port given the image need not be on this
// engine: the nodes fetch it themselves.
func (p *Provider) port(ctx context.Context) (uint32, error) {
	if p.set.Port != 0 {
		return uint32(p.set.Port), nil
	}
	image, err := p.engine.Ensure(ctx, p.set.Image)
	if err != nil {
		return 0, err
	}
	port, err := engine.Port(p.set.Image.Ref, image, 0)
	return uint32(port.Num()), err
}

// create makes the service, and the network if it is to have one. Its caller's end
// does not cut it short: a manager whose client hangs up may still make the service,
// after the removal by name has found nothing.
func (p *Provider) create(ctx context.Context, s *service, port uint32) error {
	if err := p.ensureNetwork(ctx, s); err != nil {
		return fmt.Errorf("swarm provider: network %s: %w", p.set.network, p.engine.Explain(err))
	}
	auth, authErr := p.set.Image.Auth(ctx)
	whole, cancel := engine.Linger(ctx, undoLimit)
	defer cancel()
	made, err := p.engine.ServiceCreate(whole, client.ServiceCreateOptions{Spec: p.set.service(s.name, port), EncodedRegistryAuth: auth})
	for _, w := range made.Warnings {
		p.set.Logger.Warn("swarm: "+w, "service", s.name)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("swarm provider: create a service of %s: %w", p.set.Image.Ref, errors.Join(p.engine.Explain(err), authErr))
	}
	return nil
}

// ensureNetwork makes the overlay network if there is none of its name.
func (p *Provider) ensureNetwork(ctx context.Context, s *service) error {
	name := p.set.network
	if name == "" {
		return nil
	}
	_, err := p.engine.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
	if !engine.IsNotFound(err) {
		return err
	}
	_, err = p.engine.NetworkCreate(ctx, name, client.NetworkCreateOptions{
		Driver: "overlay", Attachable: true, Labels: engine.Labels(nil, "swarm"),
	})
	if err == nil {
		s.network = name
	} else if engine.IsConflict(err) {
		return nil // another service's provider was quicker
	}
	return err
}
