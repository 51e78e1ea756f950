package cli

import (
	"cmp"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/openenv-go/openenv/hub"
	"github.com/openenv-go/openenv/provider/docker"
	"github.com/openenv-go/openenv/provider/process"
	"github.com/openenv-go/openenv/provider/swarm"
	"github.com/openenv-go/openenv/provider/uv"
)

// fitting is for the flags that not every provider has a use for.
var fitting = []struct {
	flag      string
	providers []string
}{
	{"volume", []string{byDocker, bySwarm, byHub}},
	{"memory", []string{byDocker, bySwarm, byHub}},
	{"cpus", []string{byDocker, bySwarm, byHub}},
	{"pull", []string{byDocker, bySwarm, byHub}},
	{"replicas", []string{bySwarm}},
	{"registry", []string{byHub}},
}

// fit refuses a flag that would do nothing.
func (o *runOptions) fit(what *source) error {
	for _, row := range fitting {
		if o.changed(row.flag) && !slices.Contains(row.providers, what.kind) {
			return usagef("--%s: has no use with %s, only with %s", row.flag, what.kind, strings.Join(row.providers, ", "))
		}
	}
	if o.changed("token") && (what.kind != byUV || what.space == hub.Space{}) {
		return usagef("--token: is for a Space that uv runs; an image is pulled with the account in the docker configuration")
	}
	return nil
}

type volume struct{ source, target, mode string }

// runSettings are the flags, read.
type runSettings struct {
	*runOptions

	variables map[string]string
	mounts    []volume
	bytes     int64 // of memory
	policy    docker.Pull
	grace     time.Duration
	report    func(string) // takes the log of providers that read it themselves
}

// settings reads the flags. What one has wrong is told by its name.
func (o *runOptions) settings() (*runSettings, error) {
	s := &runSettings{runOptions: o, variables: map[string]string{}, grace: o.stopTimeout * 2 / 3}
	if !o.quiet {
		s.report = o.streams.logLine
	}
	switch {
	case o.changed("port") && (o.port < 1 || o.port > math.MaxUint16):
		return nil, usagef("--port: %d is not between 1 and %d", o.port, math.MaxUint16)
	case o.changed("cpus") && (!(o.cpus >= 0.001) || o.cpus > 1e6):
		return nil, usagef("--cpus: %v is no number of processors", o.cpus)
	case o.replicas < 1:
		return nil, usagef("--replicas: %d is below 1", o.replicas)
	case o.readyTimeout < 0:
		return nil, usagef("--ready-timeout: %v is negative", o.readyTimeout)
	case o.stopTimeout <= 0:
		return nil, usagef("--stop-timeout: %v is no time to stop in", o.stopTimeout)
	case o.changed("registry") && (o.registry == "" || strings.Contains(o.registry, "://")):
		return nil, usagef("--registry: %q is not a host", o.registry)
	}
	policies := map[string]docker.Pull{"always": docker.PullAlways, "missing": docker.PullMissing, "never": docker.PullNever}
	var ok bool
	if s.policy, ok = policies[o.pull]; !ok {
		return nil, usagef("--pull: %q is none of always, missing, never", o.pull)
	}
	if o.changed("memory") {
		var err error
		if s.bytes, err = units.RAMInBytes(o.memory); err != nil || s.bytes < 1 {
			return nil, usagef("--memory: %q is no size, such as 512m or 2g", o.memory)
		}
	}
	for _, text := range o.volumes {
		v, ok := splitVolume(text)
		if !ok {
			return nil, usagef("--volume: %q is not source:target[:mode]", text)
		}
		s.mounts = append(s.mounts, v)
	}
	return s, s.readEnv()
}

// readEnv reads the variables. A value can be a secret and is never shown.
func (s *runSettings) readEnv() error {
	for _, text := range s.env {
		name, value, given := strings.Cut(text, "=")
		if name == "" {
			return usagef("--env: a variable is given as name=value")
		}
		if !given {
			if value, given = os.LookupEnv(name); !given {
				return usagef("--env: %s has no value here: give it as name=value", oneLine(name))
			}
		}
		s.variables[name] = value
	}
	return nil
}

// splitVolume takes source:target[:mode] apart, from its end: a source can begin with
// a drive.
func splitVolume(text string) (volume, bool) {
	parts := strings.Split(text, ":")
	var v volume
	if last := len(parts) - 1; last >= 2 && !strings.ContainsAny(parts[last], `/\`) {
		v.mode, parts = parts[last], parts[:last]
	}
	if len(parts) < 2 {
		return volume{}, false
	}
	last := len(parts) - 1
	v.source, v.target = strings.Join(parts[:last], ":"), parts[last]
	return v, v.source != "" && v.target != ""
}

// build makes the environment; nothing is started yet.
func (s *runSettings) build(what *source) (*environment, error) {
	e := &environment{kind: what.kind, shown: what.shown, pulled: &pulled{streams: s.streams, image: what.shown}}
	switch what.kind {
	case byProcess:
		e.provider, e.suspect = process.New(what.command, s.forProcess()...), refusing
	case byUV:
		repository := what.text
		if (what.space != hub.Space{}) {
			var err error
			if repository, err = s.repository(what.space); err != nil {
				return nil, err
			}
		}
		e.provider, e.suspect = uv.New(repository, s.forUV()...), refusing
	case bySwarm:
		p := swarm.New(what.text, s.forSwarm(e)...)
		e.provider, e.name, e.follow, e.suspect = p, p.Name, e.followService, serviceGone
	case byHub:
		what.text = what.space.Image(cmp.Or(strings.TrimRight(s.registry, "/"), hub.DefaultRegistry), hub.DefaultTag)
		fallthrough
	default:
		p := docker.New(what.text, s.forDocker(e)...)
		e.provider, e.name, e.follow, e.suspect = p, p.Name, e.followContainer, containerEnded
	}
	return e, nil
}

// repository is a Space's, with the token in it: uv's provider shows it to git alone.
func (s *runSettings) repository(space hub.Space) (string, error) {
	endpoint := strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), hub.DefaultEndpoint), "/")
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return "", usagef("HF_ENDPOINT is not an address of a Hub") // which it may show a secret of
	}
	token := strings.TrimSpace(cmp.Or(s.token, os.Getenv("HF_TOKEN")))
	if token != "" {
		if u.Scheme != "https" {
			return "", usagef("the token is sent over https only, and HF_ENDPOINT is an address of %s", u.Scheme)
		}
		u.User = url.UserPassword("oenv", token)
	}
	return space.Git(u.String()), nil
}

func (s *runSettings) forProcess() []process.Option {
	opts := []process.Option{process.WithEnv(s.variables), process.WithPort(s.port), process.WithGrace(s.grace), process.WithLog(s.report)}
	if s.changed("ready-timeout") {
		opts = append(opts, process.WithReadyTimeout(s.readyTimeout))
	}
	return opts
}

func (s *runSettings) forUV() []uv.Option {
	opts := []uv.Option{uv.WithEnv(s.variables), uv.WithPort(s.port), uv.WithGrace(s.grace), uv.WithLog(s.report)}
	if s.changed("ready-timeout") {
		opts = append(opts, uv.WithReadyTimeout(s.readyTimeout))
	}
	return opts
}

func (s *runSettings) forDocker(e *environment) []docker.Option {
	opts := []docker.Option{docker.WithEnv(s.variables), docker.WithPull(s.policy), docker.WithGrace(s.grace), docker.WithProgress(e.pulled.show)}
	for _, v := range s.mounts {
		opts = append(opts, docker.WithVolume(v.source, v.target, v.mode))
	}
	if s.port != 0 {
		opts = append(opts, docker.WithPort(s.port))
	}
	if s.bytes != 0 {
		opts = append(opts, docker.WithMemory(s.bytes))
	}
	if s.cpus != 0 {
		opts = append(opts, docker.WithCPUs(s.cpus))
	}
	if s.changed("ready-timeout") {
		opts = append(opts, docker.WithReadyTimeout(s.readyTimeout))
	}
	return opts
}

func (s *runSettings) forSwarm(e *environment) []swarm.Option {
	opts := []swarm.Option{swarm.WithReplicas(s.replicas), swarm.WithEnv(s.variables), swarm.WithPull(s.policy), swarm.WithGrace(s.grace), swarm.WithProgress(e.pulled.show)}
	for _, v := range s.mounts {
		opts = append(opts, swarm.WithVolume(v.source, v.target, v.mode))
	}
	if s.port != 0 {
		opts = append(opts, swarm.WithPort(s.port))
	}
	if s.bytes != 0 {
		opts = append(opts, swarm.WithMemory(s.bytes))
	}
	if s.cpus != 0 {
		opts = append(opts, swarm.WithCPUs(s.cpus))
	}
	if s.changed("ready-timeout") {
		opts = append(opts, swarm.WithReadyTimeout(s.readyTimeout))
	}
	return opts
}
