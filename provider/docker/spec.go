package docker

import (
	"net/netip"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/provider/internal/engine"
)

// container is what the engine is asked to create.
func (s *settings) container(name string, port network.Port) client.ContainerCreateOptions {
	host := &container.HostConfig{
		NetworkMode:   container.NetworkMode(s.network),
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Resources:     container.Resources{Memory: s.Memory, MemorySwap: s.Memory, NanoCPUs: s.NanoCPUs},
	}
	for _, v := range s.Volumes {
		host.Binds = append(host.Binds, v.String())
	}
	config := &container.Config{
		Env:        engine.Env(s.Env),
		Labels:     engine.Labels(s.Labels, "docker"),
		User:       s.User,
		Cmd:        s.Command,
		Entrypoint: s.Entrypoint,
	}
	if s.network != hostNetwork {
		at := loopback
		if s.publish != "" {
			at, _ = netip.ParseAddr(s.publish) // checked by its option
		}
		config.ExposedPorts = network.PortSet{port: {}}
		// Port 0: the engine takes a free one as it binds it, so that two starts cannot
		// choose the same.
		host.PortBindings = network.PortMap{port: {{HostIP: at, HostPort: "0"}}}
	}
	return client.ContainerCreateOptions{Name: name, Image: s.Image.Ref, Platform: s.Image.Platform, Config: config, HostConfig: host}
}
