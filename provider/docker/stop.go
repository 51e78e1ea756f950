package docker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/provider/internal/engine"
)

// Stop ends the container with TERM, after the grace with KILL, removes it together
// with its anonymous volumes, and returns when the engine no longer knows it. A
// container that somebody else has removed is stopped.
func (p *Provider) Stop(ctx context.Context) error {
	if p.engine == nil {
		return nil
	}
	defer p.engine.Close()
	if err := p.remove(ctx, p.set.Grace); err != nil {
		return fmt.Errorf("docker provider: %w", err)
	}
	return nil
}

// remove forgets the container only when it is known to be gone.
func (p *Provider) remove(ctx context.Context, grace time.Duration) error {
	b := p.current()
	if b == nil {
		return nil
	}
	if err := remove(ctx, p.engine, b.name, grace); err != nil {
		return err
	}
	p.keep(nil)
	return nil
}

// killTime is kept of the caller's limit for the removal itself.
const killTime = 5 * time.Second

// remove removes a container and confirms that it is gone. With a grace of 0 it is
// killed right away.
func remove(ctx context.Context, e *engine.Engine, name string, grace time.Duration) error {
	if limit, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(limit)-killTime)
	}
	var stopErr error
	if grace > 0 {
		seconds := int(math.Ceil(grace.Seconds())) // the engine counts whole ones
		_, stopErr = e.ContainerStop(ctx, name, client.ContainerStopOptions{Timeout: &seconds})
		if engine.IsNotFound(stopErr) {
			return nil
		}
	}
	// The forced removal also serves a container that could not be stopped.
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		_, err := e.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if engine.IsNotFound(err) {
			return nil
		}
		// A conflict: the engine is removing it already. After a success and after a
		// conflict alike it is asked again, until it says that there is none.
		if err != nil && !engine.IsConflict(err) || ctx.Err() != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			} else if stopErr != nil {
				err = fmt.Errorf("%w (stop: %w)", err, stopErr)
			}
			return fmt.Errorf("remove container %s: %w", name, e.Explain(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
