package dockertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/testenv"
)

// SwarmMain is Main for a package whose tests need a swarm: the engine is made a
// manager, and leaves the swarm at the end. Packages take turns. An engine that nobody
// named for the tests is not changed: it has to be a manager already.
func SwarmMain(m *testing.M) int {
	release, err := find()
	if err != nil {
		found.err = err
		return m.Run()
	}
	defer release()
	leave, err := joinSwarm()
	if err != nil {
		found.swarmErr = err
		return m.Run()
	}
	defer leave()
	return m.Run()
}

func joinSwarm() (leave func(), err error) {
	unlock, err := lock(found.dir, "swarm", exclusive)
	if err != nil {
		return nil, err
	}
	made, err := initSwarm()
	if err != nil {
		unlock()
		return nil, err
	}
	found.swarmMade = made
	return func() {
		if made {
			_ = leaveSwarm()
		}
		unlock()
	}, nil
}

func initSwarm() (made bool, err error) {
	c, err := client.New(client.FromEnv, client.WithHost(found.host))
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil || info.Info.Swarm.ControlAvailable {
		return false, err
	}
	if !found.own && os.Getenv(client.EnvOverrideHost) == "" {
		return false, errors.New("the engine is in none: run `docker swarm init`, or set DOCKER_HOST to let the tests do it")
	}
	if err := ownGateway(ctx, c); err != nil {
		return false, err
	}
	_, err = c.SwarmInit(ctx, client.SwarmInitOptions{ListenAddr: "127.0.0.1:2377", AdvertiseAddr: "127.0.0.1"})
	return err == nil, err
}

// ownGateway gives our own engine a gateway bridge of its own: a swarm's always has the
// same name, and two engines would change each other's address on it.
func ownGateway(ctx context.Context, c *client.Client) error {
	const name = "docker_gwbridge"
	if !found.own {
		return nil
	}
	_, err := c.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
	if !errdefs.IsNotFound(err) {
		return err
	}
	_, err = c.NetworkCreate(ctx, name, client.NetworkCreateOptions{Driver: "bridge", Options: map[string]string{
		"com.docker.network.bridge.name":       "oenvtest1",
		"com.docker.network.bridge.enable_icc": "false",
	}})
	return err
}

func leaveSwarm() error {
	c, err := client.New(client.FromEnv, client.WithHost(found.host))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.SwarmLeave(context.Background(), client.SwarmLeaveOptions{Force: true})
	return err
}

// Swarm is Engine for a test that needs a swarm.
func Swarm(t testing.TB) string {
	t.Helper()
	host := Engine(t)
	testenv.Require(t, "a swarm", found.swarmErr)
	return host
}

// WithoutSwarm takes the engine out of its swarm for the time of the test, if it is
// the tests' own.
func WithoutSwarm(t testing.TB) {
	t.Helper()
	Swarm(t)
	if !found.swarmMade {
		testenv.Require(t, "an engine of the tests' own", fmt.Errorf("%s was in a swarm before them", found.host))
	}
	if err := leaveSwarm(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := initSwarm(); err != nil {
			t.Errorf("back into a swarm: %v", err)
		}
	})
}

// IPVS is nil if the kernel has what the swarm's balancer needs.
func IPVS() error {
	if _, err := os.Stat("/proc/net/ip_vs"); err != nil {
		return fmt.Errorf("the kernel lacks IPVS: %w", err)
	}
	return nil
}
