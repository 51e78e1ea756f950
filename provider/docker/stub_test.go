package docker_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/docker"
)

// stub is an engine that does what no real one can be asked to. It knows the image
// echo, and at most one container.
type stub struct {
	*httptest.Server

	mu       sync.Mutex
	calls    []string // method and path of what changes something
	created  map[string]any
	name     string
	startErr string
	failures int // how often a removal fails
	labels   map[string]string
	age      time.Duration
}

func newStub(t *testing.T) *stub {
	t.Helper()
	s := new(stub)
	s.Server = httptest.NewServer(http.StripPrefix("/v1.41", s))
	t.Cleanup(s.Close)
	ping := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_ping" {
			w.Header().Set("Api-Version", "1.41")
			return
		}
		ping.ServeHTTP(w, r)
	})
	return s
}

func (s *stub) host() docker.Option {
	return docker.WithHost("tcp://" + s.Listener.Addr().String())
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodGet {
		s.calls = append(s.calls, r.Method+" "+strings.Replace(r.URL.Path, cmp.Or(s.name, "-")+"/", "", 1))
	}
	switch path := r.URL.Path; {
	case path == "/images/echo/json":
		answer(w, 200, map[string]any{"Id": "sha256:1", "Config": map[string]any{}})
	case path == "/containers/create":
		s.name = r.URL.Query().Get("name")
		_ = json.NewDecoder(r.Body).Decode(&s.created)
		answer(w, 201, map[string]any{"Id": "1"})
	case path == "/containers/json":
		answer(w, 200, []any{map[string]any{
			"Id": s.name, "Names": []string{"/" + s.name}, "Labels": s.labels, "Created": time.Now().Add(-s.age).Unix(),
		}})
	case s.name == "" || !strings.HasPrefix(path, "/containers/"+s.name):
		answer(w, 404, map[string]any{"message": "no such container"})
	case r.Method == http.MethodDelete && s.failures > 0:
		s.failures--
		answer(w, 500, map[string]any{"message": "device or resource busy"})
	case r.Method == http.MethodDelete:
		s.name = ""
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(path, "/start") && s.startErr != "":
		answer(w, 500, map[string]any{"message": s.startErr})
	case strings.HasSuffix(path, "/json"):
		answer(w, 200, map[string]any{
			"State": map[string]any{"Running": true},
			"NetworkSettings": map[string]any{"Ports": map[string]any{
				"8000/tcp": []any{map[string]any{"HostIp": "127.0.0.1", "HostPort": "1"}},
			}},
		})
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// asked are the calls that changed something.
func (s *stub) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Report OpenEnv#1150, #1151: a volume option is ignored without a word.
func TestVolumes(t *testing.T) {
	leak.Check(t)
	s := newStub(t)
	p := newProvider(t, "echo", s.host(), docker.WithVolume("/host", "/in", "ro"), docker.Named("volume", "name:/in2"))
	if _, err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	host, _ := s.created["HostConfig"].(map[string]any)
	if got, want := fmt.Sprint(host["Binds"]), "[/host:/in:ro name:/in2]"; got != want {
		t.Errorf("the engine got %s, want %s", got, want)
	}
}

// What cannot be right, or is not known, is refused before the engine hears of it.
func TestRefusedOptions(t *testing.T) {
	leak.Check(t)
	for _, tt := range []struct {
		name string
		opt  docker.Option
		want string
	}{
		{"unknown", docker.Named("privileged", "true"), `option privileged: there is none of that name, only cpus, env`},
		{"nil", nil, "one is nil"},
		{"empty bind", docker.WithVolume("", "/in", ""), "source is empty"},
		{"empty bind by name", docker.Named("volume", ":/in"), "source is empty"},
		{"relative bind", docker.WithVolume("./data", "/in", ""), "neither an absolute path nor the name of a volume"},
		{"relative target", docker.WithVolume("/data", "in", ""), "not an absolute path"},
		{"root as target", docker.WithVolume("/data", "/", ""), "not an absolute path below /"},
		{"colon in a bind", docker.WithVolume("/data:/etc", "/in", ""), "colon"},
		{"colon in a target", docker.WithVolume("/data", "/in:rw", "ro"), "colon"},
		{"unknown mode", docker.WithVolume("/data", "/in", "rx"), `mode "rx"`},
		{"two modes", docker.WithVolume("/data", "/in", "ro,rw"), "contradicts"},
		{"volume without a target", docker.Named("volume", "/data"), "not SOURCE:TARGET"},
		{"our label", docker.WithLabel("openenv-go.owner", "x"), "the provider's own"},
		{"label without a name", docker.Named("label", "=x"), "without a name"},
		{"variable without a name", docker.WithEnv(map[string]string{"": "x"}), "cannot be a variable"},
		{"variable without a value", docker.Named("env", "X"), "not NAME=VALUE"},
		{"port 0", docker.WithPort(0), "no port"},
		{"port 65536", docker.Named("port", "65536"), "no port"},
		{"port of letters", docker.Named("port", "http"), "option port"},
		{"no memory", docker.WithMemory(0), "0 bytes are no limit"},
		{"memory of letters", docker.Named("memory", "much"), "option memory"},
		{"no CPUs", docker.WithCPUs(0), "WithCPUs"},
		{"no network", docker.WithNetwork("none"), "no port to publish"},
		{"another's network", docker.WithNetwork("container:x"), "no port to publish"},
		{"platform", docker.WithPlatform("amd64"), "not os/architecture"},
		{"pull policy", docker.Named("pull", "sometimes"), "none of missing, always, never"},
		{"publish address", docker.WithPublishAddress("localhost"), "WithPublishAddress"},
		{"negative grace", docker.WithGrace(-1), "negative"},
		{"client options", docker.WithClient(openenv.WithNumbers()), "only FromImage"},
		{"negative limit", docker.Named("ready-timeout", "-1s"), "negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStub(t)
			p := docker.New("echo", s.host(), tt.opt)
			_, err := p.Start(t.Context())
			if _, ok := errors.AsType[*provider.ConfigError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start = %v, want a ConfigError with %q", err, tt.want)
			}
			if err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if calls := s.asked(); len(calls) > 0 {
				t.Errorf("the engine was asked: %v", calls)
			}
		})
	}
	for _, image := range []string{"", "Upper/Case", "a b", "x:y:z"} {
		if _, err := docker.New(image).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "image") {
			t.Errorf("image %q: %v", image, err)
		}
	}
}

func TestNamedOptions(t *testing.T) {
	leak.Check(t)
	s := newStub(t)
	var opts []docker.Option
	for name, value := range map[string]string{
		"cpus": "1.5", "env": "A=b=c", "label": "team=red", "memory": "512m", "network": "lab", "platform": "linux/arm64/v8", "port": "8000",
		"publish-address": "127.0.0.2", "pull": "never", "grace": "0s", "ready-timeout": "5m", "user": "1000", "volume": "/data:/in",
	} {
		opts = append(opts, docker.Named(name, value))
	}
	p := newProvider(t, "echo", append(opts, s.host())...)
	if _, err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent, err := json.Marshal(s.created)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"NanoCpus":1500000000`, `"Env":["A=b=c"]`, `"team":"red"`, `"Memory":536870912`, `"NetworkMode":"lab"`, `"HostIp":"127.0.0.2"`, `"User":"1000"`, `"Binds":["/data:/in"]`,
	} {
		if !strings.Contains(string(sent), want) {
			t.Errorf("%s is not in %s", want, sent)
		}
	}
}

// The engine has made the container and then fails to start it.
func TestStartFailsAfterCreating(t *testing.T) {
	leak.Check(t)
	s := newStub(t)
	s.startErr = "OCI runtime create failed: exit status 125"
	p := newProvider(t, "echo", s.host())
	_, err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 125") {
		t.Errorf("Start = %v, want the engine's error", err)
	}
	calls := s.asked()
	if len(calls) < 3 || calls[0] != "POST /containers/create" || calls[1] != "POST /containers/start" || !strings.HasPrefix(calls[2], "DELETE /containers/openenv-echo-") {
		t.Errorf("calls %v, want a removal by name", calls)
	}
	if p.Name() != "" {
		t.Errorf("the provider still has %s", p.Name())
	}
}

// A removal that fails keeps the handle; Close reports it, and the next one finishes.
func TestStopIsRetried(t *testing.T) {
	leak.Check(t)
	s := newStub(t)
	s.failures = 1
	p := newProvider(t, "echo", s.host())
	if _, err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := p.Name()
	if err := p.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "device or resource busy") || p.Name() != name {
		t.Errorf("first Stop = %v, container %q, want the engine's error and the handle", err, p.Name())
	}
	if _, err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("Start over it = %v", err)
	}
	if err := p.Stop(t.Context()); err != nil || p.Name() != "" {
		t.Errorf("second Stop = %v, container %q", err, p.Name())
	}
}

// The same through a client.
func TestCleanupPending(t *testing.T) {
	leak.Check(t)
	s := newStub(t)
	s.failures = 1
	s.startErr = "no space left on device"
	p := newProvider(t, "echo", s.host())
	env, err := openenv.New(echo.Spec, "", openenv.WithProvider(p))
	if err != nil {
		t.Fatal(err)
	}
	// Start's own removal fails; the client's, right behind it, does not.
	if err := env.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "no space left") || errors.Is(err, openenv.ErrCleanupPending) {
		t.Errorf("Connect = %v, want the engine's error alone", err)
	}
	s.mu.Lock()
	s.failures = 2
	s.mu.Unlock()
	if err := env.Connect(t.Context()); !errors.Is(err, openenv.ErrCleanupPending) {
		t.Errorf("Connect = %v, want the cleanup pending", err)
	}
	if err := env.Close(); err != nil || p.Name() != "" {
		t.Errorf("Close = %v, container %q", err, p.Name())
	}
}

// The age counts for those whose owner cannot be asked.
func TestPruneByAge(t *testing.T) {
	leak.Check(t)
	s := newStub(t)
	s.name, s.age = "somebodys", 2*time.Hour
	s.labels = map[string]string{"openenv-go.provider": "docker", "openenv-go.owner": `{"host":"elsewhere","pid":7}`}
	host := "tcp://" + s.Listener.Addr().String()
	for _, tt := range []struct {
		olderThan time.Duration
		want      int
	}{{0, 0}, {3 * time.Hour, 0}, {time.Hour, 1}} {
		removed, err := docker.Prune(t.Context(), host, tt.olderThan)
		if err != nil || len(removed) != tt.want {
			t.Errorf("older than %v: %v, %v, want %d", tt.olderThan, removed, err, tt.want)
		}
	}
}

// An engine on another machine publishes where we cannot reach it.
func TestRemoteEngine(t *testing.T) {
	leak.Check(t)
	for _, tt := range []struct{ host, want string }{
		{"tcp://engine.example.com:2376", "WithPublishAddress"},
		{"ssh://engine.example.com", "ssh"},
		{"nonsense", "engine"},
	} {
		if _, err := docker.New("echo", docker.WithHost(tt.host)).Start(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Start = %v, want %q", tt.host, err, tt.want)
		}
	}
}
