package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/internal/engine"
)

// WaitReady polls the environment's health until it answers. A container that ends is
// reported at once as a [*provider.ExitError], one that is not ready in time as a
// [*provider.NotReadyError]; both have the end of its log.
func (p *Provider) WaitReady(ctx context.Context) error {
	b := p.current()
	if b == nil || b.url == "" {
		return errors.New("docker provider: not started")
	}
	defer p.engine.Close()
	base, err := netx.ParseBase(b.url)
	if err != nil {
		return fmt.Errorf("docker provider: %w", err)
	}
	if limit := p.set.Ready; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, engine.LimitError(limit))
		defer cancel()
	}
	watched, cancel := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		end := p.watch(watched, b.name)
		cancel(end)
		ended <- end
	}()
	err = engine.Poll(watched, base)
	cancel(nil)
	if end := <-ended; end != nil {
		return end
	}
	if err != nil {
		return &provider.NotReadyError{Name: p.title(b.name), Err: err, Tail: p.engine.ContainerTail(ctx, b.name)}
	}
	return nil
}

// title names a container in errors.
func (p *Provider) title(name string) string {
	return fmt.Sprintf("container %s of %s", name, p.set.Image.Ref)
}

// watch returns what ended the container, or nil when ctx ends first. An engine that
// does not answer for a while says nothing about its containers.
func (p *Provider) watch(ctx context.Context, name string) error {
	for {
		wait := p.engine.ContainerWait(ctx, name, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case <-wait.Result:
			state, err := p.engine.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
			if engine.IsNotFound(err) {
				return p.gone(name)
			}
			if err == nil {
				if dead := p.died(ctx, name, state.Container.State); dead != nil {
					return dead
				}
			}
		case err := <-wait.Error:
			if engine.IsNotFound(err) {
				return p.gone(name)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (p *Provider) gone(name string) error {
	return fmt.Errorf("docker provider: %s: %w", p.title(name), provider.ErrGone)
}

// died is the reason why a container does not run, nil if it does.
func (p *Provider) died(ctx context.Context, name string, s *container.State) error {
	if s == nil || s.Running || s.Paused || s.Restarting {
		return nil
	}
	exit := &provider.ExitError{Name: p.title(name), Code: s.ExitCode, Tail: p.engine.ContainerTail(ctx, name)}
	if s.OOMKilled {
		exit.Signal = "killed: it used more memory than it may"
	}
	return exit
}
