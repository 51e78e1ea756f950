package swarm

import (
	"maps"
	"time"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/swarm"

	"github.com/openenv-go/openenv/provider/internal/engine"
)

// labelService has the service's name: tasks can be asked for by it after the service
// itself is gone.
const labelService = engine.LabelPrefix + "service"

// restartPause is how long a replica that has ended is left alone.
const restartPause = time.Second

// service is what the manager is asked to run.
func (s *settings) service(name string, port uint32) swarm.ServiceSpec {
	labels := engine.Labels(s.Labels, "swarm")
	labels[labelService] = name
	box := &swarm.ContainerSpec{
		Image: s.Image.Ref, Command: s.Entrypoint, Args: s.Command, Env: engine.Env(s.Env), User: s.User,
		Labels: maps.Clone(s.Labels), StopGracePeriod: new(s.Grace),
	}
	for _, v := range s.Volumes {
		m := mount.Mount{Type: mount.TypeVolume, Source: v.Source, Target: v.Target, ReadOnly: v.ReadOnly()}
		if v.Bind() {
			m.Type = mount.TypeBind
		}
		box.Mounts = append(box.Mounts, m)
	}
	task := swarm.TaskSpec{
		ContainerSpec: box,
		RestartPolicy: &swarm.RestartPolicy{Condition: swarm.RestartPolicyConditionAny, Delay: new(restartPause)},
	}
	if s.Memory > 0 || s.NanoCPUs > 0 {
		task.Resources = &swarm.ResourceRequirements{Limits: &swarm.Limit{MemoryBytes: s.Memory, NanoCPUs: s.NanoCPUs}}
	}
	if len(s.constraints) > 0 {
		task.Placement = &swarm.Placement{Constraints: s.constraints}
	}
	if s.network != "" {
		task.Networks = []swarm.NetworkAttachmentConfig{{Target: s.network}}
	}
	// No published port is asked for: the node, or the swarm, takes a free one. Without
	// the balancer there is no virtual address either, which would need IPVS as well.
	mode, publish := swarm.ResolutionModeDNSRR, swarm.PortConfigPublishModeHost
	if s.ingress {
		mode, publish = swarm.ResolutionModeVIP, swarm.PortConfigPublishModeIngress
	}
	replicas := uint64(s.replicas)
	return swarm.ServiceSpec{
		Annotations:  swarm.Annotations{Name: name, Labels: labels},
		TaskTemplate: task,
		Mode:         swarm.ServiceMode{Replicated: &swarm.ReplicatedService{Replicas: &replicas}},
		EndpointSpec: &swarm.EndpointSpec{
			Mode:  mode,
			Ports: []swarm.PortConfig{{Protocol: network.TCP, TargetPort: port, PublishMode: publish}},
		},
	}
}
