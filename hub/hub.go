// Package hub finds environments on the Hugging Face Hub, where each is a Space: a
// repository, an image built from it, and perhaps a running server.
//
//	env, err := hub.FromSpace(ctx, echo.Spec, "openenv/echo_env")  // a container of its own
//	env, err := hub.Open(ctx, "openenv/echo_env")                  // the Space itself, if it is up
//
// A Space's code is never run inside this program. By default it runs in a container;
// [WithUV] runs it as a process of this user, which is for Spaces that one trusts.
//
// HF_ENDPOINT names another Hub, HF_TOKEN is the token for private Spaces. It is sent
// to the Hub and to Spaces, over https, and to nobody else.
package hub

import (
	"context"
	"fmt"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/docker"
	"github.com/openenv-go/openenv/provider/uv"
)

// Source is where a Space's server can be had.
type Source struct {
	Image string // for container providers
	Git   string // for provider/uv: git+https://…
}

// FromSpace starts the environment of a Space on this machine and connects a client to
// it: the Space's image in a container, or with WithUV its repository as a process.
// The client owns what was started: Close ends it. On any failure nothing is left and
// the original error is returned.
func FromSpace[A, O, S any](ctx context.Context, spec openenv.Spec[A, O, S], space string, opts ...Option) (*openenv.Client[A, O, S], error) {
	set, err := newSettings(opts)
	if err != nil {
		return nil, fmt.Errorf("hub.FromSpace: %w", err)
	}
	sp, err := set.parseSpace(space)
	if err != nil {
		return nil, fmt.Errorf("hub.FromSpace: %w", err)
	}
	return start(ctx, spec, sp, set)
}

func start[A, O, S any](ctx context.Context, spec openenv.Spec[A, O, S], sp Space, set *settings) (*openenv.Client[A, O, S], error) {
	p, err := set.providerOf(sp)
	if err != nil {
		return nil, err
	}
	env, err := openenv.FromProvider(ctx, spec, p, set.client...)
	if err != nil {
		return nil, fmt.Errorf("space %s: %w", sp, err)
	}
	return env, nil
}

func (s *settings) providerOf(sp Space) (provider.Provider, error) {
	src := Source{Image: sp.Image(s.registry, s.tag), Git: sp.Git(s.endpoint)}
	switch {
	case s.build != nil:
		p := s.build(src)
		if p == nil {
			return nil, fmt.Errorf("space %s: WithProvider made none", sp)
		}
		return p, nil
	case s.uv != nil:
		return uv.New(src.Git, *s.uv...), nil
	}
	return docker.New(src.Image, s.docker...), nil
}
