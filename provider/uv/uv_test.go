//go:build unix

package uv_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/providertest"
	"github.com/openenv-go/openenv/provider/uv"
)

// Most tests need no Python: this binary plays uv, in the role of roleVariable.
const roleVariable = "OPENENV_UV_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		log.SetFlags(0)
		if err := play(role, os.Args[1:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(leak.Main(m))
}

func play(role string, args []string) error {
	fmt.Printf("args: %s\n", strings.Join(args, " "))
	fmt.Printf("files: %s\n", strings.Join(files("two", ".git/shallow", "../../two", "../../.git/shallow"), " "))
	switch role {
	case "serve":
		return serve(args)
	case "die":
		fmt.Fprintln(os.Stderr, "error: no solution found")
		os.Exit(2)
	case "silent":
		select {}
	}
	return fmt.Errorf("no role %q", role)
}

func serve(args []string) error {
	srv, err := envserver.New(echo.Spec, echo.New)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	return srv.ListenAndServe(ctx, "127.0.0.1:"+args[slices.Index(args, "--port")+1])
}

// files returns the names that exist.
func files(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Stat(name)
		return err != nil
	})
}

// fake makes a provider whose uv is this binary.
func fake(source, role string, opts ...uv.Option) *uv.Provider {
	return uv.New(source, append([]uv.Option{
		uv.WithProgram(os.Args[0]), uv.WithEnv(map[string]string{roleVariable: role}),
		uv.WithGrace(3 * time.Second), uv.WithReadyTimeout(30 * time.Second),
	}, opts...)...)
}

// begin sets up a temporary directory for clones, which is empty at the end.
func begin(t *testing.T) context.Context {
	t.Helper()
	leak.Check(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		for _, left := range clones(t, dir) {
			t.Errorf("left behind: %s", left)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func clones(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "openenv-uv-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func stop(t *testing.T, p provider.Provider) {
	t.Helper()
	if err := p.Stop(context.Background()); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// write makes a directory of files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// repository makes a bare repository of a directory, with a tag v1 and then a branch
// main that has the additional file two, and returns its address and the ids of both.
func repository(t *testing.T, dir string) (address string, ids [2]string) {
	t.Helper()
	bare := filepath.Join(t.TempDir(), "project.git")
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet", "--initial-branch=main")
	git("add", ".")
	git("commit", "--quiet", "--message=one")
	git("tag", "v1")
	ids[0] = git("rev-parse", "HEAD")
	if err := os.WriteFile(filepath.Join(dir, "two"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	git("add", ".")
	git("commit", "--quiet", "--message=two")
	git("branch", "feature/x")
	ids[1] = git("rev-parse", "HEAD")
	git("clone", "--quiet", "--bare", ".", bare)
	return "git+file://" + bare, ids
}

func TestProvider(t *testing.T) {
	project := write(t, map[string]string{"pyproject.toml": ""})
	repo, _ := repository(t, write(t, map[string]string{"pyproject.toml": ""}))
	for name, source := range map[string]string{"directory": project, "repository": repo} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			build := func(role string, opts ...uv.Option) func(*testing.T) provider.Provider {
				return func(*testing.T) provider.Provider { return fake(source, role, opts...) }
			}
			providertest.Run(t, providertest.Config{
				New:            build("serve"),
				BadStart:       func(*testing.T) provider.Provider { return fake(source+"-gone", "serve") },
				BadStartSays:   []string{"-gone"},
				Dies:           build("die"),
				DiesSays:       []string{"status 2", "no solution found"},
				NeverReady:     build("silent", uv.WithReadyTimeout(time.Second)),
				NeverReadySays: []string{"args: run", "within 1s"},
				Parallel:       4,
				Leftovers:      func(t *testing.T) []string { return clones(t, tmp) },
			})
		})
	}
}

// told runs a project whose uv is this binary, and returns the arguments and the
// files that it found.
func told(ctx context.Context, t *testing.T, source string, opts ...uv.Option) (args, files string) {
	t.Helper()
	var lines []string
	p := fake(source, "serve", append(opts, uv.WithLog(func(line string) { lines = append(lines, line) }))...)
	endpoint, err := p.Start(ctx)
	if err == nil {
		err = p.WaitReady(ctx)
	}
	stop(t, p) // and nothing is logged any more
	if err != nil {
		t.Fatal(err)
	}
	port := endpoint.URLs[0][strings.LastIndexByte(endpoint.URLs[0], ':')+1:]
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, "args: "); ok {
			args = strings.ReplaceAll(rest, port, "PORT")
		}
		if rest, ok := strings.CutPrefix(line, "files: "); ok {
			files = rest
		}
	}
	return args, files
}

// The command is that of the Python package's UVProvider.
func TestCommand(t *testing.T) {
	plain := write(t, map[string]string{"pyproject.toml": ""})
	named := write(t, map[string]string{
		"pyproject.toml": "",
		"openenv.yaml":   "spec_version: 1\nname: x\nvalidation:\n  app: not.this:one\napp: \"my.server:application\" # comment\n",
	})
	for _, tt := range []struct {
		name, dir string
		opts      []uv.Option
		want      string
	}{
		{"plain", plain, nil, "run --isolated --project DIR -- uvicorn server.app:app --host 127.0.0.1 --port PORT --workers 1"},
		{"openenv.yaml", named, nil, "run --isolated --project DIR -- uvicorn my.server:application --host 127.0.0.1 --port PORT --workers 1"},
		{
			"options", named,
			[]uv.Option{
				uv.WithApp("a:b"), uv.WithProjectEnvironment(), uv.WithRunArgs("--frozen"), uv.WithRunArgs("--extra", "gpu"),
				uv.WithServerArgs("--log-level", "debug"),
			},
			"run --project DIR --frozen --extra gpu -- uvicorn a:b --host 127.0.0.1 --port PORT --workers 1 --log-level debug",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := begin(t)
			args, _ := told(ctx, t, tt.dir, tt.opts...)
			if got := strings.ReplaceAll(args, tt.dir, "DIR"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// What is cloned is what the address says, without history, and only for the server's
// life; begin looks after that.
func TestRevisions(t *testing.T) {
	repo, ids := repository(t, write(t, map[string]string{
		"pyproject.toml": "", "envs/sub/pyproject.toml": "", "envs/sub/openenv.yaml": "app: sub.app:app\n",
	}))
	for _, tt := range []struct{ name, at, app, files string }{
		{"default branch", "", "server.app:app", "two .git/shallow"},
		{"branch", "@main", "server.app:app", "two .git/shallow"},
		{"branch with a slash", "@feature/x", "server.app:app", "two .git/shallow"},
		{"tag", "@v1", "server.app:app", ".git/shallow"},
		{"commit", "@" + ids[0], "server.app:app", ".git/shallow"},
		{"directory", "@main#subdirectory=envs/sub", "sub.app:app", "../../two ../../.git/shallow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := begin(t)
			args, files := told(ctx, t, repo+tt.at)
			if files != tt.files || !strings.Contains(args, " "+tt.app+" ") {
				t.Errorf("got files %q, arguments %s, want %q, %s", files, args, tt.files, tt.app)
			}
		})
	}
}

// What is wrong is said before anything runs.
func TestConfigErrors(t *testing.T) {
	project := write(t, map[string]string{"pyproject.toml": ""})
	empty := t.TempDir()
	badApp := write(t, map[string]string{"pyproject.toml": "", "openenv.yaml": "app: server\n"})
	repo, _ := repository(t, write(t, map[string]string{"README.md": ""}))
	for _, tt := range []struct {
		name, source string
		opt          uv.Option
		setting      string
		says         string
	}{
		{"nothing", "", nil, "source", "no directory"},
		{"no such directory", empty + "/x", nil, "source", "does not exist"},
		{"no project", empty, nil, "source", "pyproject.toml"},
		{"a file", project + "/pyproject.toml", nil, "source", "not a directory"},
		{"no git+", "https://user:s3cret@host/org/repo", nil, "source", "git+"},
		{"another scheme", "git+ext::s3cret", nil, "source", "none of https"},
		{"ftp", "git+ftp://user:s3cret@host/x", nil, "source", "none of https"},
		{"no host", "git+https:///x", nil, "source", "no host"},
		{"no path", "git+https://s3cret@host/", nil, "source", "no path"},
		{"malformed", "git+https://user:s3cret%zz@host/x", nil, "source", "malformed"},
		{"a query", "git+https://host/x?token=s3cret", nil, "source", "query"},
		{"a fragment", "git+https://s3cret@host/x#egg=x", nil, "source", "fragment"},
		{"a fragment that leaves", "git+https://s3cret@host/x#subdirectory=../y", nil, "source", "fragment"},
		{"an option as revision", "git+https://s3cret@host/x@--upload-pack=y", nil, "source", "revision"},
		{"two references", "git+https://s3cret@host/x@a:b", nil, "source", "revision"},
		{"no revision", "git+https://s3cret@host/x@", nil, "source", "revision"},
		{"a password for ssh", "git+ssh://git:s3cret@host/x", nil, "source", "ssh"},
		{"credentials for a file", "git+file://u:s3cret@host/x", nil, "source", "credentials"},
		{"no project in a repository", repo, nil, "source", "pyproject.toml"},
		{"no such directory in a repository", repo + "#subdirectory=x", nil, "source", `no directory "x"`},
		{"a bad app in the manifest", badApp, nil, "source", `"server"`},
		{"a bad app", project, uv.WithApp("--reload:x"), "WithApp", "--reload"},
		{"no time to clone", repo, uv.WithCloneTimeout(0), "WithCloneTimeout", "0s"},
		{"a bad port", project, uv.WithPort(-1), "WithPort", "-1"},
		{"a bad variable", project, uv.WithEnv(map[string]string{"": "s3cret"}), "WithEnv", `""`},
		{"a missing uv", project, uv.WithProgram(empty + "/uv"), "uv", "pip install uv"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := begin(t)
			opts := slices.DeleteFunc([]uv.Option{tt.opt}, func(o uv.Option) bool { return o == nil })
			p := fake(tt.source, "serve", opts...)
			_, err := p.Start(ctx)
			wrong, ok := errors.AsType[*provider.ConfigError](err)
			if !ok || wrong.Provider != "uv" || wrong.Setting != tt.setting || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want a ConfigError of %s that says %q", err, tt.setting, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v shows a secret", err)
			}
			stop(t, p)
		})
	}
}

// A missing program is one clear error: what is missing and where to get it.
func TestMissingPrograms(t *testing.T) {
	project := write(t, map[string]string{"pyproject.toml": ""})
	for _, tt := range []struct{ name, source, program, says string }{
		{"uv", project, "", "uv provider: uv: executable file not found in $PATH in PATH"},
		{"git", "git+https://user:s3cret@host/org/repo", os.Args[0], "uv provider: git: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := begin(t)
			t.Setenv("PATH", t.TempDir())
			_, err := uv.New(tt.source, uv.WithProgram(tt.program)).Start(ctx)
			if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "install") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want one clear error", err)
			}
		})
	}
}

// Credentials reach the server and nothing else.
func TestCredentials(t *testing.T) {
	ctx := begin(t)
	var mu sync.Mutex
	var asked []string
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, user+" "+password)
		w.Header().Set("WWW-Authenticate", "Basic")
		// A server that is careless with what it was sent.
		http.Error(w, "no access for "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	defer host.Close()
	for _, tt := range []struct{ credentials, want string }{
		{"user:s3cret%2Fpass", "user s3cret/pass"},
		{"hf_s3crettoken", "hf_s3crettoken "},
	} {
		mu.Lock()
		asked = nil
		mu.Unlock()
		var logged []string
		p := fake("git+http://"+tt.credentials+"@"+strings.TrimPrefix(host.URL, "http://")+"/org/repo@v1", "serve",
			uv.WithLog(func(line string) { logged = append(logged, line) }))
		_, err := p.Start(ctx)
		if err == nil || !strings.Contains(err.Error(), "git fetch") || !strings.Contains(err.Error(), "/org/repo@v1") {
			t.Errorf("got %v, want what was tried", err)
		}
		for _, text := range append(logged, fmt.Sprint(err)) {
			// The last two are the beginnings of what Basic makes of them.
			for _, secret := range []string{"s3cret", "dXNlcj", "aGZf"} {
				if strings.Contains(text, secret) {
					t.Errorf("shown: %s", text)
				}
			}
		}
		mu.Lock()
		if len(asked) == 0 || asked[0] != tt.want {
			t.Errorf("the server was sent %q, want %q", asked, tt.want)
		}
		mu.Unlock()
		stop(t, p)
	}
}

// A repository that does not answer costs the limit, or what ctx allows; so does one
// that asks for a password on a terminal.
func TestCloneTimeout(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit time.Duration
		ctx   time.Duration
		says  string
	}{
		{"limit", 300 * time.Millisecond, time.Minute, "within 300ms"},
		{"context", time.Minute, 300 * time.Millisecond, "deadline exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := begin(t)
			release := make(chan struct{})
			host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}))
			defer host.Close()
			defer close(release)
			ctx, cancel := context.WithTimeout(ctx, tt.ctx)
			defer cancel()
			start := time.Now()
			p := fake("git+"+host.URL+"/x", "serve", uv.WithCloneTimeout(tt.limit))
			defer stop(t, p)
			_, err := p.Start(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want the limit", err)
			}
			if passed := time.Since(start); passed > 5*time.Second {
				t.Errorf("after %v", passed)
			}
		})
	}
}

func TestUnknownRevision(t *testing.T) {
	ctx := begin(t)
	repo, _ := repository(t, write(t, map[string]string{"pyproject.toml": ""}))
	p := fake(repo+"@no-such-branch", "serve")
	defer stop(t, p)
	if _, err := p.Start(ctx); err == nil || !strings.Contains(err.Error(), "no-such-branch") {
		t.Errorf("got %v, want the revision", err)
	}
}
