package docker_test

import (
	"testing"
	"time"

	"github.com/openenv-go/openenv/internal/dockertest"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/docker"
	"github.com/openenv-go/openenv/provider/providertest"
)

func TestProvider(t *testing.T) {
	dockertest.Engine(t)
	image := dockertest.Image(t)
	build := func(opts ...docker.Option) func(*testing.T) provider.Provider {
		return func(*testing.T) provider.Provider { return docker.New(image, opts...) }
	}
	fault := func(how string) docker.Option { return docker.WithEnv(map[string]string{"FAULT": how}) }
	providertest.Run(t, providertest.Config{
		New:            build(),
		BadStart:       build(docker.WithEntrypoint("/no/such/program")),
		BadStartSays:   []string{"no such file or directory"},
		Dies:           build(fault("die")),
		DiesSays:       []string{"exited with status 3", "the model file is missing"},
		NeverReady:     build(fault("never"), docker.WithReadyTimeout(time.Second)),
		NeverReadySays: []string{"not healthy within 1s", "HTTP status 503", "serving on port 8000"},
		StopFails: func(t *testing.T) provider.Provider {
			return docker.New(image, docker.WithHost(dockertest.FailFirstRemoval(t)))
		},
		Parallel:  20,
		Leftovers: names,
	})
}
