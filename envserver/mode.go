package envserver

import (
	"context"

	"github.com/openenv-go/openenv"
)

type modeKey struct{}

// ServerMode returns the mode of the server that ctx was given by, in the build of an
// environment and in every call on it; simulation outside of a server.
func ServerMode(ctx context.Context) openenv.Mode {
	if mode, ok := ctx.Value(modeKey{}).(openenv.Mode); ok {
		return mode
	}
	return openenv.ModeSimulation
}

func withMode(ctx context.Context, mode openenv.Mode) context.Context {
	return context.WithValue(ctx, modeKey{}, mode)
}
