package docker

import (
	"context"

	"github.com/openenv-go/openenv"
)

// FromImage starts a container of image and connects a client to it. The client owns
// the container: Close removes it. On any failure nothing is left and the original
// error is returned.
func FromImage[A, O, S any](ctx context.Context, spec openenv.Spec[A, O, S], image string, opts ...Option) (*openenv.Client[A, O, S], error) {
	p := newProvider(image, opts)
	if p.wrong != nil {
		return nil, p.wrong
	}
	return openenv.FromProvider(ctx, spec, p, p.set.client...)
}
