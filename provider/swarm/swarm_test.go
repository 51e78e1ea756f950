package swarm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/internal/dockertest"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/providertest"
	"github.com/openenv-go/openenv/provider/swarm"
)

// ownerEnv makes the test binary start a service of the image it names, and wait.
const ownerEnv = "OPENENV_TEST_OWNER"

func TestMain(m *testing.M) {
	if image := os.Getenv(ownerEnv); image != "" {
		p := swarm.New(image, swarm.WithReplicas(1))
		if _, err := p.Start(context.Background()); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Name())
		time.Sleep(time.Hour)
	}
	os.Exit(dockertest.SwarmMain(m))
}

// quick is for tests in which nothing need end well.
var quick = swarm.WithGrace(0)

// image is where the nodes can pull it, as they do at each start.
func image(t *testing.T, lines ...string) string {
	t.Helper()
	dockertest.Swarm(t)
	return dockertest.Push(t, dockertest.Image(t, lines...), dockertest.Registry(t, false), "openenv/echo:v1")
}

func TestProvider(t *testing.T) {
	ref := image(t)
	build := func(opts ...swarm.Option) func(*testing.T) provider.Provider {
		return func(*testing.T) provider.Provider {
			return swarm.New(ref, append([]swarm.Option{swarm.WithReplicas(1), quick}, opts...)...)
		}
	}
	fault := func(how string) swarm.Option { return swarm.WithEnv(map[string]string{"FAULT": how}) }
	providertest.Run(t, providertest.Config{
		New:            build(),
		BadStart:       build(swarm.WithEntrypoint("/no/such/program")),
		BadStartSays:   []string{"no such file or directory"},
		Dies:           build(fault("die")),
		DiesSays:       []string{"exited with status 3", "the model file is missing"},
		NeverReady:     build(fault("never"), swarm.WithReadyTimeout(3*time.Second)),
		NeverReadySays: []string{"not healthy within 3s", "HTTP status 503", "serving on port 8000"},
		StopFails: func(t *testing.T) provider.Provider {
			return build(swarm.WithHost(dockertest.FailFirstRemoval(t)))(t)
		},
		Parallel:  3,
		Leftovers: names,
	})
}

// Report OpenEnv#199: behind a balancer a session's calls land on several replicas.
// Here each session is on one replica, they are spread evenly, and stay.
func TestSessionsStayWithTheirReplica(t *testing.T) {
	ref := image(t)
	leak.Check(t)
	p := swarm.New(ref, swarm.WithReplicas(3), quick)
	env := play(t, p)
	sessions := family(t, env, 6)
	if got := spread(t, sessions); !slices.Equal(got, []int{2, 2, 2}) {
		t.Errorf("sessions per replica %v, want 2 on each of 3", got)
	}
	steps(t, sessions, 5)
}

func TestScale(t *testing.T) {
	ref := image(t)
	leak.Check(t)
	p := swarm.New(ref, swarm.WithReplicas(1), quick)
	env := play(t, p)
	sessions := family(t, env, 2)
	if got := spread(t, sessions); !slices.Equal(got, []int{2}) {
		t.Errorf("sessions per replica %v", got)
	}
	if err := p.Scale(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	steps(t, sessions, 1) // undisturbed
	awaitEndpoints(t, p, 3)
	time.Sleep(1100 * time.Millisecond) // the client asks at most once a second
	sessions = append(sessions, newSessions(t, env, 4)...)
	if got := spread(t, sessions); !slices.Equal(got, []int{2, 2, 2}) {
		t.Errorf("sessions per replica %v, want 2 on each of 3", got)
	}
	if err := p.Scale(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, s := range sessions {
		_, err := s.Step(t.Context(), echo.Action{Message: "hi"})
		if gone, ok := errors.AsType[*openenv.SessionLostError](err); ok {
			lost++
		} else if err != nil {
			t.Errorf("Step = %v (%T)", err, gone)
		}
	}
	if lost != 2 {
		t.Errorf("%d sessions are lost, want the 2 of one replica", lost)
	}
	if endpoint, err := p.Endpoints(t.Context()); err != nil || len(endpoint.URLs) != 2 {
		t.Errorf("Endpoints = %v, %v, want 2", endpoint.URLs, err)
	}
	if err := p.Scale(t.Context(), 0); err == nil {
		t.Error("scaled to 0")
	}
}

// The swarm puts another replica in the place of one that is killed; its sessions are
// lost, a reset finds a new place.
func TestReplicaKilled(t *testing.T) {
	ref := image(t)
	leak.Check(t)
	p := swarm.New(ref, swarm.WithReplicas(2), quick)
	env := play(t, p)
	sessions := family(t, env, 2)
	c := dockertest.Connect(t)
	defer c.Close()
	boxes, err := c.ContainerList(t.Context(), client.ContainerListOptions{
		Filters: make(client.Filters).Add("label", "com.docker.swarm.service.name="+p.Name()),
	})
	if err != nil || len(boxes.Items) != 2 {
		t.Fatalf("containers %v, %v", boxes.Items, err)
	}
	if _, err := c.ContainerKill(t.Context(), boxes.Items[0].ID, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, s := range sessions {
		if _, err := s.Step(t.Context(), echo.Action{Message: "hi"}); err == nil {
			continue
		}
		lost++
		if _, err := s.Reset(t.Context()); err != nil {
			t.Errorf("Reset = %v", err)
		}
	}
	if lost != 1 {
		t.Errorf("%d sessions were lost, want 1", lost)
	}
	awaitEndpoints(t, p, 2)
}

func TestOptionsReachTheService(t *testing.T) {
	ref := image(t, "EXPOSE 9000 9001")
	leak.Check(t)
	_, err := swarm.New(ref).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exposes the ports 9000, 9001: choose one with WithPort") {
		t.Errorf("Start = %v", err)
	}
	p := swarm.New(ref, swarm.WithReplicas(1), quick, swarm.WithPort(9001), swarm.WithEnv(map[string]string{"PORT": "9001"}),
		swarm.WithMemory(64<<20), swarm.WithCPUs(0.5), swarm.WithConstraint("node.role==manager"), swarm.WithLabel("team", "red"),
		swarm.WithUser("1000"), swarm.WithCommand("-x"), swarm.WithVolume(t.TempDir(), "/in", "ro"))
	play(t, p)
	c := dockertest.Connect(t)
	defer c.Close()
	got, err := c.ServiceInspect(t.Context(), p.Name(), client.ServiceInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	task := got.Service.Spec.TaskTemplate
	for what, ok := range map[string]bool{
		"limits":     task.Resources.Limits.MemoryBytes == 64<<20 && task.Resources.Limits.NanoCPUs == 5e8,
		"constraint": slices.Equal(task.Placement.Constraints, []string{"node.role==manager"}),
		"label":      got.Service.Spec.Labels["team"] == "red" && task.ContainerSpec.Labels["team"] == "red",
		"user":       task.ContainerSpec.User == "1000",
		"command":    slices.Equal(task.ContainerSpec.Args, []string{"-x"}),
		"volume":     len(task.ContainerSpec.Mounts) == 1 && task.ContainerSpec.Mounts[0].ReadOnly,
		"mode":       got.Service.Spec.EndpointSpec.Ports[0].PublishMode == "host",
	} {
		if !ok {
			t.Errorf("%s: %+v", what, got.Service.Spec)
		}
	}
}

func TestUnsatisfiableConstraint(t *testing.T) {
	ref := image(t)
	leak.Check(t)
	p := swarm.New(ref, swarm.WithConstraint("node.labels.gpu==true"), swarm.WithReadyTimeout(2*time.Second))
	_, err := p.Start(t.Context())
	if _, ok := errors.AsType[*provider.NotReadyError](err); !ok || !strings.Contains(err.Error(), "no suitable node") {
		t.Errorf("Start = %v, want what the swarm says", err)
	}
	if p.Name() != "" {
		t.Errorf("service %s is left", p.Name())
	}
}

func TestOverlayNetwork(t *testing.T) {
	ref := image(t)
	leak.Check(t)
	c := dockertest.Connect(t)
	defer c.Close()
	p := swarm.New(ref, swarm.WithReplicas(1), quick, swarm.WithNetwork("openenv-test-overlay"))
	env := play(t, p)
	n, err := c.NetworkInspect(t.Context(), "openenv-test-overlay", client.NetworkInspectOptions{})
	if err != nil || n.Network.Driver != "overlay" {
		t.Errorf("network %+v, %v", n, err)
	}
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.NetworkInspect(t.Context(), "openenv-test-overlay", client.NetworkInspectOptions{}); err == nil {
		t.Error("the network is left")
	}
}

func TestIngress(t *testing.T) {
	ref := image(t)
	if err := dockertest.IPVS(); err != nil {
		t.Skip(err) // also in CI: no test set-up can give a kernel what it lacks
	}
	leak.Check(t)
	p := swarm.New(ref, swarm.WithReplicas(2), quick, swarm.WithIngress())
	env := play(t, p)
	steps(t, family(t, env, 4), 5)
}

func TestAutoInit(t *testing.T) {
	ref := image(t)
	dockertest.WithoutSwarm(t)
	leak.Check(t)
	_, err := swarm.New(ref).Start(t.Context())
	if _, ok := errors.AsType[*provider.ConfigError](err); !ok || !strings.Contains(err.Error(), "WithAutoInit") {
		t.Errorf("Start = %v, want the option named", err)
	}
	if all, err := swarm.List(t.Context(), ""); err != nil || len(all) != 0 {
		t.Errorf("List = %v, %v", all, err)
	}
	play(t, swarm.New(ref, swarm.WithAutoInit(), swarm.WithReplicas(1), quick))
}

func TestPruneAfterTheOwnerWasKilled(t *testing.T) {
	ref := image(t)
	leak.Check(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), ownerEnv+"="+ref)
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
}

func TestRefusedOptions(t *testing.T) {
	leak.Check(t)
	for _, tt := range []struct {
		name string
		opt  swarm.Option
		want string
	}{
		{"nil", nil, "one is nil"},
		{"no replicas", swarm.WithReplicas(0), "below 1"},
		{"no network", swarm.WithNetwork(""), "empty"},
		{"no constraint", swarm.WithConstraint(""), "empty"},
		{"empty bind", swarm.WithVolume("", "/in", ""), "source is empty"},
		{"mode of another provider", swarm.WithVolume("/a", "/in", "Z"), "none of ro, rw"},
		{"our label", swarm.WithLabel("openenv-go.service", "x"), "the provider's own"},
		{"port", swarm.WithPort(-1), "no port"},
		{"memory", swarm.WithMemory(-1), "no limit"},
		{"CPUs", swarm.WithCPUs(-1), "no limit"},
		{"environment", swarm.WithEnv(map[string]string{"A=B": ""}), "cannot be a variable"},
		{"host", swarm.WithHost("ssh://manager"), "ssh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := swarm.New("echo", tt.opt)
			_, err := p.Start(t.Context())
			if _, ok := errors.AsType[*provider.ConfigError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start = %v, want a ConfigError with %q", err, tt.want)
			}
			if err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

type echoClient = *openenv.Client[echo.Action, echo.Observation, openenv.State]

// play starts p through a client, which is closed with the test.
func play(t *testing.T, p *swarm.Provider) echoClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	env, err := openenv.FromProvider(ctx, echo.Spec, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
		if left := names(t); len(left) > 0 {
			t.Errorf("services %v are left", left)
		}
	})
	if _, err := env.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	return env
}

// family are n sessions in all, each in an episode.
func family(t *testing.T, env echoClient, n int) []echoClient {
	t.Helper()
	return append([]echoClient{env}, newSessions(t, env, n-1)...)
}

func newSessions(t *testing.T, env echoClient, n int) []echoClient {
	t.Helper()
	var all []echoClient
	for range n {
		s, err := env.NewSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// spread counts the sessions of each replica that has any: as the client has placed
// them, as the servers say, and as the episodes' names, which have their replica's in
// them, tell.
func spread(t *testing.T, sessions []echoClient) []int {
	t.Helper()
	placed, told := map[string]int{}, map[string]int{}
	for _, s := range sessions {
		placed[s.BaseURL()]++
		state, err := s.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		replica, _, _ := strings.Cut(state.EpisodeID, "/")
		told[replica]++
	}
	for url, n := range placed {
		if got := get(t, url+"/sessions"); got != fmt.Sprintln(n) {
			t.Errorf("%s has %s sessions, want %d", url, strings.TrimSpace(got), n)
		}
	}
	counts := func(m map[string]int) (all []int) {
		for _, n := range m {
			all = append(all, n)
		}
		slices.Sort(all)
		return all
	}
	if !slices.Equal(counts(placed), counts(told)) {
		t.Errorf("placed %v, told %v", placed, told)
	}
	return counts(placed)
}

// steps makes n steps in each session, in turn, and checks that the episode is the
// same one throughout.
func steps(t *testing.T, sessions []echoClient, n int) {
	t.Helper()
	before := make([]openenv.State, len(sessions))
	for i, s := range sessions {
		var err error
		if before[i], err = s.State(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		for i, s := range sessions {
			if _, err := s.Step(t.Context(), echo.Action{Message: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, s := range sessions {
		after, err := s.State(t.Context())
		if err != nil || after.EpisodeID != before[i].EpisodeID || after.StepCount != before[i].StepCount+n {
			t.Errorf("session %d: %+v, %v after %+v and %d steps", i, after, err, before[i], n)
		}
	}
}

func awaitEndpoints(t *testing.T, p *swarm.Provider, n int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		endpoint, err := p.Endpoints(t.Context())
		if len(endpoint.URLs) == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Endpoints = %v, %v, want %d", endpoint.URLs, err, n)
		}
	}
}

// names are those of this process's services. It is asked in cleanups too, when the
// test's ctx has ended.
func names(t *testing.T) []string {
	t.Helper()
	all, err := swarm.List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, s := range all {
		if s.OwnerPID == os.Getpid() {
			ours = append(ours, s.Name)
		}
	}
	return ours
}

func prune(t *testing.T) []string {
	t.Helper()
	removed, err := swarm.Prune(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range removed {
		names = append(names, s.Name)
	}
	return names
}

func get(t *testing.T, url string) string {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
