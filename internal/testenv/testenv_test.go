package testenv_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/testenv"
)

// recorder stands in for the test that needs something.
type recorder struct {
	testing.TB
	skipped, failed string
}

// ended is what recorder panics with where a test would end its goroutine.
type ended struct{}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	panic(ended{})
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	panic(ended{})
}

// record runs body to the end or to the point where the test would end.
func record(t *testing.T, body func(testing.TB)) (r *recorder) {
	t.Helper()
	r = &recorder{TB: t}
	defer func() {
		if v := recover(); v != nil && v != (ended{}) {
			panic(v)
		}
	}()
	body(r)
	return r
}

func TestRequire(t *testing.T) {
	missing := errors.New("no such daemon")
	for _, tt := range []struct {
		name, ci     string
		err          error
		skips, fails bool
	}{
		{name: "there", err: nil},
		{name: "there on CI", ci: "true", err: nil},
		{name: "missing", err: missing, skips: true},
		{name: "missing with CI off", ci: "false", err: missing, skips: true},
		{name: "missing on CI", ci: "true", err: missing, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CI", tt.ci)
			r := record(t, func(tb testing.TB) { testenv.Require(tb, "the daemon", tt.err) })
			if got := r.skipped != ""; got != tt.skips {
				t.Errorf("skipped = %q, want skip: %v", r.skipped, tt.skips)
			}
			if got := r.failed != ""; got != tt.fails {
				t.Errorf("failed = %q, want failure: %v", r.failed, tt.fails)
			}
			if text := r.skipped + r.failed; tt.err != nil && !strings.Contains(text, "the daemon is missing: no such daemon") {
				t.Errorf("%q does not say what is missing and why", text)
			}
		})
	}
}

func TestPythonFromEnvironment(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(python, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(testenv.PeerPython, python)
	if got := testenv.Python(t); got != python {
		t.Errorf("got %s, want %s", got, python)
	}

	t.Setenv("CI", "")
	t.Setenv(testenv.PeerPython, python+".gone")
	r := record(t, func(tb testing.TB) { testenv.Python(tb) })
	if !strings.Contains(r.skipped, testenv.PeerPython) {
		t.Errorf("a wrong path: skipped with %q, want a reason that names %s", r.skipped, testenv.PeerPython)
	}
}

func TestUV(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(testenv.PeerPython, filepath.Join(dir, "python"))
	t.Setenv("CI", "")
	if err := os.WriteFile(filepath.Join(dir, "python"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := record(t, func(tb testing.TB) { testenv.UV(tb) })
	if !strings.Contains(r.skipped, "uv is missing") || !strings.Contains(r.skipped, "make peer") {
		t.Errorf("skipped with %q, want what is missing and the hint `make peer`", r.skipped)
	}
	uv := filepath.Join(dir, "uv")
	if err := os.WriteFile(uv, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := testenv.UV(t); got != uv {
		t.Errorf("got %s, want %s", got, uv)
	}
}

func TestPythonHint(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "interop", "peer"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	t.Setenv("CI", "")
	t.Setenv(testenv.PeerPython, "")
	r := record(t, func(tb testing.TB) { testenv.Python(tb) })
	if !strings.Contains(r.skipped, "make peer") {
		t.Errorf("skipped with %q, want the hint `make peer`", r.skipped)
	}
}

func TestNode(t *testing.T) {
	root, bin := t.TempDir(), t.TempDir()
	modules := filepath.Join(root, "interop", "node", "node_modules")
	for _, dir := range []string{modules, filepath.Join(root, "interop", "peer")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	node := filepath.Join(bin, "node")
	for path, mode := range map[string]os.FileMode{filepath.Join(root, "go.mod"): 0o600, node: 0o700} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	t.Setenv("CI", "")
	t.Setenv("PATH", root)
	if r := record(t, func(tb testing.TB) { testenv.Node(tb) }); !strings.Contains(r.skipped, "node") {
		t.Errorf("without node: skipped with %q", r.skipped)
	}
	t.Setenv("PATH", bin)
	if r := record(t, func(tb testing.TB) { testenv.Node(tb) }); !strings.Contains(r.skipped, "make node") {
		t.Errorf("without the packages: skipped with %q, want the hint `make node`", r.skipped)
	}
	if err := os.WriteFile(filepath.Join(modules, "installed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := testenv.Node(t); got != node {
		t.Errorf("got %s, want %s", got, node)
	}
}

func TestRoot(t *testing.T) {
	root := testenv.Root(t)
	if _, err := os.Stat(filepath.Join(root, "internal", "testenv", "testenv.go")); err != nil {
		t.Errorf("%s is not the root: %v", root, err)
	}
}
