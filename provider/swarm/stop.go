package swarm

import (
	"context"
	"fmt"

	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/provider/internal/engine"
)

// Stop removes the service and returns when its tasks have ended, by TERM or after
// the grace by KILL, and their containers are gone. A service that somebody else has
// removed is stopped.
func (p *Provider) Stop(ctx context.Context) error {
	if p.engine == nil || p.Name() == "" {
		return nil
	}
	defer p.engine.Close()
	return p.remove(ctx)
}

// remove forgets the service only when it is known to be gone.
func (p *Provider) remove(ctx context.Context) error {
	s, err := p.current()
	if err != nil {
		return err
	}
	if err := remove(ctx, p.engine, s.name, s.network); err != nil {
		return fmt.Errorf("swarm provider: %w", err)
	}
	p.keep(nil)
	return nil
}

// remove removes a service, waits until nothing of it runs, and removes the network
// that was made for it.
func remove(ctx context.Context, e *engine.Engine, name, network string) error {
	if _, err := e.ServiceRemove(ctx, name, client.ServiceRemoveOptions{}); err != nil && !engine.IsNotFound(err) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("remove service %s: %w", name, e.Explain(err))
	}
	for {
		left, err := leftovers(ctx, e, name)
		if err == nil && left == 0 {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("remove service %s: %d tasks and containers are left: %w", name, left, context.Cause(ctx))
		}
		if err != nil {
			return fmt.Errorf("remove service %s: %w", name, e.Explain(err))
		}
		pause(ctx)
	}
	return removeNetwork(ctx, e, network)
}

// leftovers counts a service's tasks anywhere and its containers on this engine: the
// swarm can forget a task before its node has removed the container.
func leftovers(ctx context.Context, e *engine.Engine, name string) (int, error) {
	tasks, err := e.TaskList(ctx, client.TaskListOptions{Filters: make(client.Filters).Add("label", labelService+"="+name)})
	if err != nil {
		return 0, err
	}
	boxes, err := e.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", "com.docker.swarm.service.name="+name),
	})
	if err != nil {
		return 0, err
	}
	return len(tasks.Items) + len(boxes.Items), nil
}

// removeNetwork removes a network unless others use it by now.
func removeNetwork(ctx context.Context, e *engine.Engine, name string) error {
	if name == "" {
		return nil
	}
	_, err := e.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
	switch {
	case err == nil, engine.IsNotFound(err), engine.InUse(err):
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("remove network %s: %w", name, e.Explain(err))
}
