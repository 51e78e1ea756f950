//go:build unix

package uv_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/provider/uv"
)

// The tests of this file run uv from PyPI with the published Python package.

// python makes the options of a real run: uv, and the interpreter of the peer.
func python(t *testing.T, opts ...uv.Option) []uv.Option {
	t.Helper()
	return append([]uv.Option{
		uv.WithProgram(testenv.UV(t)),
		uv.WithEnv(map[string]string{
			"UV_PYTHON": testenv.Python(t), "UV_PYTHON_DOWNLOADS": "never", "PYTHONDONTWRITEBYTECODE": "1",
		}),
		uv.WithLog(func(line string) { t.Log(line) }),
		uv.WithReadyTimeout(5 * time.Minute),
	}, opts...)
}

// installed has the peer's environment used as it is: making one takes long.
func installed(t *testing.T) []uv.Option {
	t.Helper()
	return []uv.Option{
		uv.WithProjectEnvironment(),
		uv.WithRunArgs("--no-sync"),
		uv.WithEnv(map[string]string{"UV_PROJECT_ENVIRONMENT": filepath.Dir(filepath.Dir(testenv.Python(t)))}),
	}
}

// project copies the repository's Python project.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(testenv.Root(t), "interop", "project"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func episode(ctx context.Context, source string, opts []uv.Option) (err error) {
	env, err := openenv.FromProvider(ctx, echo.Spec, uv.New(source, opts...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	if _, err := env.Reset(ctx); err != nil {
		return err
	}
	res, err := env.Step(ctx, echo.Action{Message: "hello"})
	if err == nil && res.Observation != (echo.Observation{Echoed: "hello", Length: 5}) {
		err = errors.New("not an echo: " + res.Observation.Echoed)
	}
	return err
}

// Four at once, from a directory and from a repository. One of them without any
// option: uv finds out what the project needs, makes an environment, and removes it.
func TestPythonProjects(t *testing.T) {
	ctx := begin(t)
	dir := project(t)
	repo, _ := repository(t, project(t))
	bare := project(t)
	app := filepath.Join(bare, "server", "app.py")
	code, err := os.ReadFile(app)
	if err != nil {
		t.Fatal(err)
	}
	code = append(code, "import sys\nprint('environment', sys.prefix)\n"...)
	if err := os.WriteFile(app, code, 0o600); err != nil {
		t.Fatal(err)
	}
	var environment string // written before Close has returned
	ready := python(t, installed(t)...)
	fresh := python(t, uv.WithLog(func(line string) {
		if found, ok := strings.CutPrefix(line, "environment "); ok {
			environment = found
		}
	}))
	var all sync.WaitGroup
	for _, one := range []struct {
		source string
		opts   []uv.Option
	}{{bare, fresh}, {dir, ready}, {repo, ready}, {repo + "@v1", ready}} {
		all.Go(func() {
			if err := episode(ctx, one.source, one.opts); err != nil {
				t.Errorf("%s: %v", one.source, err)
			}
		})
	}
	all.Wait()
	if _, err := os.Stat(environment); environment == "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the environment %q: %v, want that it was used and removed", environment, err)
	}
	for _, name := range []string{".venv", "uv.lock"} {
		if _, err := os.Stat(filepath.Join(bare, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the project has got a %s", name)
		}
	}
}

// A project that is broken says why, in Python's words.
func TestBrokenPythonProject(t *testing.T) {
	ctx := begin(t)
	dir := project(t)
	if err := os.WriteFile(filepath.Join(dir, "server", "app.py"), []byte("import no_such_module\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := episode(ctx, dir, python(t, installed(t)...)); err == nil || !strings.Contains(err.Error(), "no_such_module") {
		t.Errorf("got %v, want the module", err)
	}
}
