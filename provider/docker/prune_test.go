package docker_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/dockertest"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider/docker"
)

const (
	// ownerEnv makes the test binary start a container of the image it names, and wait.
	ownerEnv = "OPENENV_TEST_OWNER"
	// killEnv makes it kill itself after that time.
	killEnv = "OPENENV_TEST_KILL"
)

func own(image string) {
	if after, err := time.ParseDuration(os.Getenv(killEnv)); err == nil {
		time.AfterFunc(after, func() {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
		})
	}
	p := docker.New(image)
	if _, err := p.Start(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Name())
	time.Sleep(time.Hour)
}

// Report trajectoryRL#203: after a hard kill nobody removes containers, and removals
// leave anonymous volumes behind.
func TestPruneAfterTheOwnerWasKilled(t *testing.T) {
	leak.Check(t)
	image := dockertest.Image(t, "VOLUME /data")
	c := dockertest.Connect(t)
	other, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: image})
	if err != nil {
		t.Fatal(err)
	}
	defer removeContainer(t, other.ID)
	alive := newProvider(t, image, quick)
	if _, err := alive.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), ownerEnv+"="+image)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	name := strings.TrimSpace(line)
	if err != nil || !strings.HasPrefix(name, "openenv-") {
		t.Fatalf("the child said %q, %v", line, err)
	}
	mounts := inspect(t, name).Mounts
	if len(mounts) != 1 {
		t.Fatalf("mounts %+v, want one", mounts)
	}
	if pruned := prune(t); slices.Contains(pruned, name) {
		t.Error("pruned while its owner lives")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if pruned := prune(t); !slices.Contains(pruned, name) {
		t.Errorf("pruned %v, want %s among them", pruned, name)
	}
	wantAbsent(t, name)
	if _, err := c.VolumeInspect(t.Context(), mounts[0].Name, client.VolumeInspectOptions{}); !errdefs.IsNotFound(err) {
		t.Errorf("volume %s: %v, want it gone", mounts[0].Name, err)
	}
	if inspect(t, other.ID).ID == "" || !inspect(t, alive.Name()).State.Running {
		t.Error("a container that is none of its business was pruned")
	}
}

// The owner is killed at any stage of a start. What the engine was just making appears
// a moment later.
func TestOwnerKilledWhileStarting(t *testing.T) {
	leak.Check(t)
	image := dockertest.Image(t)
	var pids []int
	for _, after := range []string{"10ms", "30ms", "60ms", "120ms", "250ms", "400ms"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), ownerEnv+"="+image, killEnv+"="+after)
		if err := cmd.Run(); err == nil {
			t.Error("the child has ended by itself")
		}
		pids = append(pids, cmd.Process.Pid)
	}
	quiet := 0
	for deadline := time.Now().Add(20 * time.Second); quiet < 5 && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if quiet++; len(prune(t)) > 0 {
			quiet = 0
		}
	}
	all, err := docker.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if slices.Contains(pids, c.OwnerPID) {
			t.Errorf("%+v is left", c)
		}
	}
}

// Stop takes the anonymous volumes along too.
func TestStopRemovesVolumes(t *testing.T) {
	leak.Check(t)
	p := newProvider(t, dockertest.Image(t, "VOLUME /data"), quick)
	if _, err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	volume := inspect(t, p.Name()).Mounts[0].Name
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := dockertest.Connect(t).VolumeInspect(t.Context(), volume, client.VolumeInspectOptions{}); !errdefs.IsNotFound(err) {
		t.Errorf("volume %s: %v, want it gone", volume, err)
	}
}

func prune(t *testing.T) []string {
	t.Helper()
	removed, err := docker.Prune(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range removed {
		names = append(names, c.Name)
	}
	return names
}
