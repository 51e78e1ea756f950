// Package testenv finds what tests need from outside the repository, and
// decides what happens when it is missing: on a developer's machine the test
// is skipped with the reason, with CI=true in the environment it fails.
package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PeerPython is the environment variable that names a Python interpreter with
// the packages of interop/peer/requirements.txt, instead of the repository's own.
const PeerPython = "OPENENV_PEER_PYTHON"

// Require returns if err is nil. Otherwise what the test needs is missing for
// the reason err: the test is skipped, or fails if the environment says
// CI=true. It must be called from the test's goroutine.
func Require(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: %v", what, err)
	}
	t.Skipf("%s is missing: %v", what, err)
}

// Root returns the repository's root: the nearest folder with a go.mod, from
// the working directory upwards, that also has the peer's files. A nested
// module is passed over.
func Root(t testing.TB) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the repository's root: %v", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "go.mod")) && exists(filepath.Join(dir, "interop", "peer")) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("find the repository's root: no go.mod beside interop/peer in or above %s", wd)
		}
	}
}

// Python returns the interpreter that has the Python peer installed: the one
// named by [PeerPython], or the one that `make peer` sets up. Without either
// it ends the test as [Require] does.
func Python(t testing.TB) string {
	t.Helper()
	python, err := findPython(Root(t))
	Require(t, "the Python peer", err)
	return python
}

// UV returns the uv that is installed beside the Python peer's interpreter. Without it
// the test ends as [Require] does.
func UV(t testing.TB) string {
	t.Helper()
	uv, err := exec.LookPath(filepath.Join(filepath.Dir(Python(t)), "uv"))
	if err != nil {
		err = fmt.Errorf("run `make peer` to install it: %w", err)
	}
	Require(t, "uv", err)
	return uv
}

func findPython(root string) (string, error) {
	if python := os.Getenv(PeerPython); python != "" {
		if _, err := os.Stat(python); err != nil {
			return "", fmt.Errorf("%s: %w", PeerPython, err)
		}
		return python, nil
	}
	python := filepath.Join(root, ".peer", "bin", "python")
	if !exists(python) {
		return "", errors.New("run `make peer` to install it")
	}
	return python, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
