// Package dockertest gives tests a real container engine, images with our server in
// them, a swarm, and a registry to pull from.
//
// A package whose tests use it has
//
//	func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }
//
// and each such test begins with [Engine]. The engine is the one that DOCKER_HOST
// names, or the one at the default socket, or else, for root with dockerd installed,
// one of the tests' own. That one is shared by the packages that `go test` runs side
// by side: each holds a lock for as long as its tests run, and the engine's keeper, a
// shell, ends it with all it has made when nobody holds the lock any more, also when
// the tests were killed.
package dockertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/testenv"
)

// imageLabel marks the images that tests build.
const imageLabel = "openenv-test"

// found is what Main found out, for the tests of the package.
var found struct {
	host string
	own  bool // an engine of the tests' own
	dir  string
	err  error

	swarmMade bool // a swarm of the tests' own
	swarmErr  error
}

// Main runs the tests of m with an engine to be had, and returns the code for os.Exit.
func Main(m *testing.M) int {
	release, err := find()
	if err != nil {
		found.err = err
		return m.Run()
	}
	defer release()
	return m.Run()
}

// find looks for an engine, or starts one, and holds it until release is called.
func find() (release func(), err error) {
	dir, err := stateDir()
	if err != nil {
		return nil, err
	}
	unlock, err := lock(dir, "mutex", exclusive)
	if err != nil {
		return nil, err
	}
	defer unlock()
	host, own := os.Getenv(client.EnvOverrideHost), false
	if host == "" {
		host = client.DefaultDockerHost
		if ping(host) != nil {
			host, own = "unix://"+dir+"/docker.sock", true
			if err := startEngine(dir, host); err != nil {
				return nil, err
			}
		}
	}
	if err := ping(host); err != nil {
		return nil, err
	}
	leave, err := lock(dir, usersFile(host, own), shared)
	if err != nil {
		return nil, err
	}
	found.host, found.own, found.dir = host, own, dir
	return func() { end(dir, host, own, leave) }, nil
}

// end leaves the engine. Of one that is not ours the last removes the tests' images.
func end(dir, host string, own bool, leave func()) {
	unlock, err := lock(dir, "mutex", exclusive)
	if err == nil {
		defer unlock()
	}
	leave()
	if own || err != nil {
		return // its keeper does the rest
	}
	last, err := lock(dir, usersFile(host, own), exclusiveNow)
	if err != nil {
		return
	}
	defer last()
	removeImages(host)
}

// Engine is the address of an engine, which DOCKER_HOST names for the time of the
// test. Without one the test ends as testenv.Require says.
func Engine(t testing.TB) string {
	t.Helper()
	if found.host == "" && found.err == nil {
		t.Fatal("the package has no TestMain that calls dockertest.Main")
	}
	testenv.Require(t, "a container engine", found.err)
	t.Setenv(client.EnvOverrideHost, found.host)
	return found.host
}

// Connect is a connection to the engine for what a test looks up itself.
func Connect(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.WithHost(Engine(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ping(host string) error {
	c, err := client.New(client.FromEnv, client.WithHost(host))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := c.Ping(ctx, client.PingOptions{}); err != nil {
		return fmt.Errorf("no answer at %s: %w", host, err)
	}
	return nil
}

func stateDir() (string, error) {
	dir := fmt.Sprintf("%s/openenv-engine-%d", os.TempDir(), os.Getuid())
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err != nil {
		return "", err
	}
	// The folder is at a known place in a folder of everybody's.
	return dir, ownedByUs(dir)
}
