package testenv

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

// Node returns the node program for the scripts of interop/node, whose packages `make
// node` installs. Without either it ends the test as [Require] does.
func Node(t testing.TB) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err == nil && !exists(filepath.Join(Root(t), "interop", "node", "node_modules", "installed")) {
		err = errors.New("run `make node` to install the packages")
	}
	Require(t, "the TypeScript client", err)
	return node
}
