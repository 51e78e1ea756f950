package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/provider/internal/engine"
)

// Container is one that a provider of this package started, in this or another
// program.
type Container struct {
	Name, ID, Image string
	URL             string // "" while it does not run
	State           string // running, exited, created, …
	Created         time.Time
	OwnerPID        int    // the process that started it
	OwnerHost       string // and the machine where it ran
	Stale           bool   // that process is known to have ended
}

// List lists the containers of all programs that use this package with the engine at
// host, the oldest first. An empty host is what New takes by default.
func List(ctx context.Context, host string) ([]Container, error) {
	e, err := engine.Connect(host)
	if err != nil {
		return nil, fmt.Errorf("docker.List: %w", err)
	}
	defer e.Close()
	all, err := list(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("docker.List: %w", err)
	}
	return all, nil
}

func list(ctx context.Context, e *engine.Engine) ([]Container, error) {
	ours := make(client.Filters).Add("label", engine.LabelProvider+"=docker")
	found, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, e.Explain(err)
	}
	var all []Container
	for _, c := range found.Items {
		owner := engine.ParseOwner(c.Labels[engine.LabelOwner])
		one := Container{
			ID: c.ID, Image: c.Image, State: string(c.State), Created: time.Unix(c.Created, 0),
			OwnerPID: owner.PID, OwnerHost: owner.Host, Stale: owner.Dead(),
		}
		if len(c.Names) > 0 {
			one.Name = strings.TrimPrefix(c.Names[0], "/")
		}
		for _, port := range c.Ports {
			if port.PublicPort != 0 {
				one.URL = "http://" + net.JoinHostPort(port.IP.String(), strconv.Itoa(int(port.PublicPort)))
			}
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Container) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// Prune removes the containers whose owner is known to have ended, with their
// anonymous volumes, and returns those it removed. If olderThan is not 0 it also
// removes those created longer ago than that, whoever owns them: an owner on another
// machine cannot be asked. Containers without this package's label are never touched.
func Prune(ctx context.Context, host string, olderThan time.Duration) ([]Container, error) {
	e, err := engine.Connect(host)
	if err != nil {
		return nil, fmt.Errorf("docker.Prune: %w", err)
	}
	defer e.Close()
	all, err := list(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("docker.Prune: %w", err)
	}
	var removed []Container
	var failed []error
	for _, c := range all {
		if !c.Stale && (olderThan <= 0 || time.Since(c.Created) < olderThan) {
			continue
		}
		if err := remove(ctx, e, c.ID, 0); err != nil {
			failed = append(failed, err)
			continue
		}
		removed = append(removed, c)
	}
	if err := errors.Join(failed...); err != nil {
		return removed, fmt.Errorf("docker.Prune: %w", err)
	}
	return removed, nil
}
