package verify_test

import (
	"context"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/provider"
)

func rolloutProvider(srv *envserver.Server) provider.Provider { return envserver.Embedded(srv) }

// counting counts the starts of a server.
type counting struct {
	provider.Provider

	f *faults
}

func (c *counting) Start(ctx context.Context) (provider.Endpoint, error) {
	c.f.lives++
	return c.Provider.Start(ctx)
}
