package swarm

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"
)

// Scale changes the number of replicas and returns when so many run and the surplus
// does not. It may be called while sessions run: with fewer replicas the swarm chooses
// which end, and the sessions there are lost, as if they had crashed; all others go on.
// New sessions go to new replicas as soon as these answer.
func (p *Provider) Scale(ctx context.Context, n int) error {
	if n < 1 {
		return fmt.Errorf("swarm provider: scale to %d: below 1", n)
	}
	s, err := p.current()
	if err != nil {
		return err
	}
	defer p.engine.Close()
	if err := p.update(ctx, s, n); err != nil {
		return fmt.Errorf("swarm provider: scale service %s to %d: %w", s.name, n, p.engine.Explain(err))
	}
	for {
		tasks, err := p.tasks(ctx, s)
		if err == nil && count(tasks) == n && settled(tasks) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("swarm provider: scale service %s to %d: %d run: %w%s", s.name, n, count(tasks), context.Cause(ctx), troubles(tasks))
		}
		pause(ctx)
	}
}

// settled reports whether no task that is to end still runs.
func settled(tasks []swarm.Task) bool {
	for _, t := range tasks {
		if t.Status.State == swarm.TaskStateRunning && t.DesiredState != swarm.TaskStateRunning {
			return false
		}
	}
	return true
}

// update sets the number. The manager refuses a change of a version that is not the
// last any more: it is then read again.
func (p *Provider) update(ctx context.Context, s *service, n int) error {
	for {
		found, err := p.engine.ServiceInspect(ctx, s.name, client.ServiceInspectOptions{})
		if err != nil {
			return err
		}
		spec := found.Service.Spec
		replicas := uint64(n)
		spec.Mode = swarm.ServiceMode{Replicated: &swarm.ReplicatedService{Replicas: &replicas}}
		_, err = p.engine.ServiceUpdate(ctx, found.Service.ID, client.ServiceUpdateOptions{
			Version: found.Service.Version, Spec: spec, RegistryAuthFrom: swarm.RegistryAuthFromSpec,
		})
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "out of sequence") {
			return err
		}
	}
}
