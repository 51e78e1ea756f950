package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/hub"
	"github.com/openenv-go/openenv/internal/dockertest"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/docker"
)

func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }

func TestNames(t *testing.T) {
	for _, tt := range []struct{ space, slug string }{
		{"openenv/echo_env", "openenv-echo-env"},
		{"OpenEnv/Echo.Env", "openenv-echo-env"},
		{"my-org/My__Env-2", "my-org-my--env-2"},
		{"a/b", "a-b"},
		{"_a/_b", "-a--b"},
		{" openenv/echo_env\n", "openenv-echo-env"},
		{"https://huggingface.co/spaces/openenv/echo_env", "openenv-echo-env"},
		{"https://huggingface.co/spaces/openenv/echo_env/", "openenv-echo-env"},
	} {
		sp, err := hub.ParseSpace(tt.space)
		if err != nil {
			t.Errorf("%s: %v", tt.space, err)
			continue
		}
		if got := sp.Slug(); got != tt.slug {
			t.Errorf("%s: slug %s, want %s", tt.space, got, tt.slug)
		}
		if got, want := sp.Image(hub.DefaultRegistry, hub.DefaultTag), "registry.hf.space/"+tt.slug+":latest"; got != want {
			t.Errorf("%s: image %s, want %s", tt.space, got, want)
		}
		if got, want := sp.URL(), "https://"+tt.slug+".hf.space"; got != want {
			t.Errorf("%s: URL %s, want %s", tt.space, got, want)
		}
		if got, want := sp.Git(hub.DefaultEndpoint), "git+https://huggingface.co/spaces/"+sp.String(); got != want {
			t.Errorf("%s: git %s, want %s", tt.space, got, want)
		}
	}
	for _, bad := range []string{
		"", "echo", "/echo", "org/", "org/space/more", "org space/x", "org/../x", "../x", "http://h:1/a", "localhost:8000", "h:1/p",
		"https://huggingface.co/openenv/echo_env", "-a/b", "a/" + strings.Repeat("b", 97),
	} {
		if sp, err := hub.ParseSpace(bad); err == nil {
			t.Errorf("%q is read as %v", bad, sp)
		}
	}
}

// What a Space is started from, by the options and the environment.
func TestSource(t *testing.T) {
	leak.Check(t)
	for _, tt := range []struct {
		name, endpoint string
		opts           []hub.Option
		want           hub.Source
	}{
		{"default", "", nil, hub.Source{Image: "registry.hf.space/org-my-env:latest", Git: "git+https://huggingface.co/spaces/Org/my_env"}},
		{"tag", "", []hub.Option{hub.WithTag("v2")}, hub.Source{Image: "registry.hf.space/org-my-env:v2", Git: "git+https://huggingface.co/spaces/Org/my_env"}},
		{"registry", "", []hub.Option{hub.WithRegistry("127.0.0.1:5000/mirror/")}, hub.Source{Image: "127.0.0.1:5000/mirror/org-my-env:latest", Git: "git+https://huggingface.co/spaces/Org/my_env"}},
		{"endpoint", "https://hub.example.com/", nil, hub.Source{Image: "registry.hf.space/org-my-env:latest", Git: "git+https://hub.example.com/spaces/Org/my_env"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HF_ENDPOINT", tt.endpoint)
			var got hub.Source
			take := hub.WithProvider(func(src hub.Source) provider.Provider { got = src; return nothing{} })
			_, err := hub.FromSpace(t.Context(), openenv.Generic, "Org/my_env", append(tt.opts, take)...)
			if !errors.Is(err, errNothing) || got != tt.want {
				t.Errorf("source %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

var errNothing = errors.New("nothing runs here")

// nothing is a provider that cannot start.
type nothing struct{}

func (nothing) Start(context.Context) (provider.Endpoint, error) {
	return provider.Endpoint{}, errNothing
}
func (nothing) WaitReady(context.Context) error { return errNothing }
func (nothing) Stop(context.Context) error      { return nil }

func TestRefused(t *testing.T) {
	leak.Check(t)
	uv, dock := hub.WithUV(), hub.WithDocker(docker.WithPort(1))
	build := hub.WithProvider(func(hub.Source) provider.Provider { return nil })
	for _, tt := range []struct {
		name, space string
		opts        []hub.Option
		want        string
	}{
		{"no Space", "echo", nil, `"echo" is not the name of a Space`},
		{"nil option", "a/b", []hub.Option{nil}, "nil option"},
		{"empty tag", "a/b", []hub.Option{hub.WithTag("")}, "WithTag"},
		{"registry with a scheme", "a/b", []hub.Option{hub.WithRegistry("https://r")}, "WithRegistry"},
		{"uv and Docker", "a/b", []hub.Option{uv, dock}, "exclude each other"},
		{"uv and a provider", "a/b", []hub.Option{uv, build}, "exclude each other"},
		{"Docker and a provider", "a/b", []hub.Option{dock, build}, "exclude each other"},
		{"no function", "a/b", []hub.Option{hub.WithProvider(nil)}, "nil function"},
		{"no provider", "a/b", []hub.Option{build}, "WithProvider made none"},
	} {
		if _, err := hub.FromSpace(t.Context(), openenv.Generic, tt.space, tt.opts...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	t.Setenv("HF_ENDPOINT", "https://user:s3cret@hub")
	if _, err := hub.Open(t.Context(), "a/b"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Open = %v", err)
	}
}

// The image comes from a registry, which the Space's name leads to.
func TestFromSpaceByDocker(t *testing.T) {
	registry := dockertest.Registry(t, false)
	dockertest.Push(t, dockertest.Image(t, "EXPOSE 7860", "ENV PORT=7860"), registry, "my-org-echo-env:v1")
	leak.Check(t)
	var pulled bool
	env, err := hub.FromSpace(t.Context(), echo.Spec, "My-Org/echo_env", hub.WithRegistry(registry), hub.WithTag("v1"),
		hub.WithDocker(docker.WithProgress(func(docker.Progress) { pulled = true })))
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	if _, err := env.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res, err := env.Step(t.Context(), echo.Action{Message: "hi"}); err != nil || res.Observation.Echoed != "hi" || !pulled {
		t.Errorf("Step = %+v, %v, pulled %v", res, err, pulled)
	}
}

// world is a Hub and a Space's server in one.
type world struct {
	*httptest.Server

	mu     sync.Mutex
	up     bool
	tokens map[string]string // path to the token seen there
}

func newWorld(t *testing.T) *world {
	t.Helper()
	srv, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(8))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{tokens: map[string]string{}, up: true}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.tokens[r.URL.Path] = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		up := w.up
		w.mu.Unlock()
		switch {
		case r.URL.Path == "/api/spaces/Org/env":
			_, _ = fmt.Fprintf(rw, `{"id":"Org/env","host":%q,"runtime":{"stage":"RUNNING"}}`, w.URL)
		case !up:
			http.Error(rw, "This Space is sleeping", http.StatusServiceUnavailable)
		default:
			srv.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(func() {
		w.Close()
		_ = srv.Shutdown(context.Background())
	})
	return w
}

func (w *world) seen(path string) (token string, asked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	token, asked = w.tokens[path]
	return token, asked
}

func TestOpen(t *testing.T) {
	for _, tt := range []struct {
		name  string
		what  func(w *world) string
		token bool // reaches the server
	}{
		{"address", func(w *world) string { return w.URL }, false},
		{"address without a scheme", func(w *world) string { return strings.TrimPrefix(w.URL, "http://") }, false},
		{"Space", func(*world) string { return "Org/env" }, true},
		{"page of a Space", func(w *world) string { return w.URL + "/spaces/Org/env" }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			w := newWorld(t)
			t.Setenv("HF_ENDPOINT", w.URL)
			t.Setenv("HF_TOKEN", "hf_s3cret")
			env, err := hub.Open(t.Context(), tt.what(w))
			if err != nil {
				t.Fatal(err)
			}
			defer env.Close()
			if _, err := env.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			res, err := env.Step(t.Context(), openenv.Object{"message": "hi"})
			if err != nil || res.Observation["echoed"] != "hi" {
				t.Errorf("Step = %+v, %v", res, err)
			}
			for _, path := range []string{"/health", "/ws"} {
				token, asked := w.seen(path)
				if !asked || (token == "hf_s3cret") != tt.token {
					t.Errorf("%s: asked %v with token %q, want one %v", path, asked, token, tt.token)
				}
			}
		})
	}
}

// A Space that sleeps is run here.
func TestOpenSleepingSpace(t *testing.T) {
	registry := dockertest.Registry(t, false)
	dockertest.Push(t, dockertest.Image(t), registry, "org-env:latest")
	leak.Check(t)
	w := newWorld(t)
	w.up = false
	t.Setenv("HF_ENDPOINT", w.URL)
	env, err := hub.Open(t.Context(), "Org/env", hub.WithRegistry(registry))
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	if env.BaseURL() == w.URL {
		t.Error("connected to the Space that sleeps")
	}
	if _, err := env.Reset(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenFails(t *testing.T) {
	leak.Check(t)
	w := newWorld(t)
	w.up = false
	t.Setenv("HF_ENDPOINT", w.URL)
	t.Setenv("HF_TOKEN", "hf_s3cret")
	cannot := hub.WithProvider(func(hub.Source) provider.Provider { return nothing{} })
	for _, tt := range []struct {
		what string
		want []string
	}{
		{w.URL, []string{"no environment answers at " + w.URL, "HTTP status 503"}},
		{"127.0.0.1:1", []string{"no environment answers at http://127.0.0.1:1", "refused"}},
		{"Org/env", []string{"Org/env is not up", "HTTP status 503", "could not be started here", errNothing.Error()}},
		{"echo", []string{`"echo" is neither a Space, org/space, nor the address of a server`}},
		{"", []string{"neither a Space"}},
		{"ftp://h/x", []string{"scheme"}},
	} {
		env, err := hub.Open(t.Context(), tt.what, cannot)
		if err == nil {
			env.Close()
			t.Errorf("%q was opened", tt.what)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%q: error %q lacks %q", tt.what, err, want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hub.Open(ctx, "Org/env", cannot); !errors.Is(err, context.Canceled) || errors.Is(err, errNothing) {
		t.Errorf("Open with a cancelled ctx = %v", err)
	}
}

// The token stays with the Hub and its Spaces, whatever a Hub answers.
func TestTokenStaysHome(t *testing.T) {
	leak.Check(t)
	w := newWorld(t)
	t.Setenv("HF_ENDPOINT", "")
	t.Setenv("HF_TOKEN", "hf_s3cret")
	env, err := hub.Open(t.Context(), w.URL, hub.WithToken("hf_other"))
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	for path, token := range w.tokens {
		if token != "" {
			t.Errorf("%s has got the token %s", path, token)
		}
	}
	for _, tt := range []struct {
		address string
		want    bool
	}{
		{"https://org-env.hf.space", true},
		{"https://ORG-env.HF.space/prefix", true},
		{"http://org-env.hf.space", false},
		{"https://org-env.hf.space.example.com", false},
		{"https://hf.space.example.com", false},
		{"https://example.com/.hf.space", false},
	} {
		if got := hub.IsSpaceHost(tt.address); got != tt.want {
			t.Errorf("%s: a Space's %v, want %v", tt.address, got, tt.want)
		}
	}
}
