package swarm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/provider/internal/engine"
)

// Service is one that a provider of this package started, in this or another program.
type Service struct {
	Name, ID, Image string
	Running, Wanted int // replicas
	Created         time.Time
	OwnerPID        int    // the process that started it
	OwnerHost       string // and the machine where it ran
	Stale           bool   // that process is known to have ended
}

// List lists the services of all programs that use this package with the swarm of the
// manager at host, the oldest first. An empty host is what New takes by default; an
// engine that manages no swarm has none.
func List(ctx context.Context, host string) ([]Service, error) {
	e, err := engine.Connect(host)
	if err != nil {
		return nil, fmt.Errorf("swarm.List: %w", err)
	}
	defer e.Close()
	all, err := list(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("swarm.List: %w", err)
	}
	return all, nil
}

func list(ctx context.Context, e *engine.Engine) ([]Service, error) {
	info, err := e.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, e.Explain(err)
	}
	if !info.Info.Swarm.ControlAvailable {
		return nil, nil
	}
	found, err := e.ServiceList(ctx, client.ServiceListOptions{
		Filters: make(client.Filters).Add("label", engine.LabelProvider+"=swarm"), Status: true,
	})
	if err != nil {
		return nil, e.Explain(err)
	}
	var all []Service
	for _, s := range found.Items {
		all = append(all, describe(s))
	}
	slices.SortFunc(all, func(a, b Service) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

func describe(s swarm.Service) Service {
	owner := engine.ParseOwner(s.Spec.Labels[engine.LabelOwner])
	one := Service{
		Name: s.Spec.Name, ID: s.ID, Created: s.CreatedAt,
		OwnerPID: owner.PID, OwnerHost: owner.Host, Stale: owner.Dead(),
	}
	if box := s.Spec.TaskTemplate.ContainerSpec; box != nil {
		one.Image = box.Image
	}
	if s.ServiceStatus != nil {
		one.Running, one.Wanted = int(s.ServiceStatus.RunningTasks), int(s.ServiceStatus.DesiredTasks)
	}
	return one
}

// Prune removes the services whose owner is known to have ended, with the networks
// made for them, and returns those it removed. If olderThan is not 0 it also removes those created longer ago than that,
// whoever owns them. Services without this package's label are never touched.
func Prune(ctx context.Context, host string, olderThan time.Duration) ([]Service, error) {
	e, err := engine.Connect(host)
	if err != nil {
		return nil, fmt.Errorf("swarm.Prune: %w", err)
	}
	defer e.Close()
	all, err := list(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("swarm.Prune: %w", err)
	}
	var removed []Service
	var failed []error
	for _, s := range all {
		if !s.Stale && (olderThan <= 0 || time.Since(s.Created) < olderThan) {
			continue
		}
		if err := remove(ctx, e, s.Name, ""); err != nil {
			failed = append(failed, err)
			continue
		}
		removed = append(removed, s)
	}
	failed = append(failed, pruneNetworks(ctx, e))
	if err := errors.Join(failed...); err != nil {
		return removed, fmt.Errorf("swarm.Prune: %w", err)
	}
	return removed, nil
}

// pruneNetworks removes the networks whose owner has ended, unless they are used.
func pruneNetworks(ctx context.Context, e *engine.Engine) error {
	found, err := e.NetworkList(ctx, client.NetworkListOptions{
		Filters: make(client.Filters).Add("label", engine.LabelProvider+"=swarm"),
	})
	if err != nil {
		return e.Explain(err)
	}
	var failed []error
	for _, n := range found.Items {
		if engine.ParseOwner(n.Labels[engine.LabelOwner]).Dead() {
			failed = append(failed, removeNetwork(ctx, e, n.Name))
		}
	}
	return errors.Join(failed...)
}
