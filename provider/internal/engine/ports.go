package engine

import (
	"slices"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/types/network"
)

// exposedPorts are the TCP ports that the image says it serves on, in order.
func exposedPorts(cfg *dockerspec.DockerOCIImageConfig) []network.Port {
	if cfg == nil {
		return nil
	}
	var ports []network.Port
	for raw := range cfg.ExposedPorts {
		p, err := network.ParsePort(raw)
		if err == nil && p.Proto() == network.TCP && p.Num() != 0 {
			ports = append(ports, p)
		}
	}
	slices.SortFunc(ports, func(a, b network.Port) int { return int(a.Num()) - int(b.Num()) })
	return slices.Compact(ports)
}
