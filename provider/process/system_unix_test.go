//go:build unix

package process_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// listable reports why children cannot list anything.
func listable() error {
	_, err := os.Stat("/proc/self/environ")
	return err
}

// children lists the processes whose environment says that they are the test's or a
// subtest's.
func children(test string) []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	var found []string
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue // gone, or somebody else's
		}
		for entry := range strings.SplitSeq(string(env), "\x00") {
			if name, ok := strings.CutPrefix(entry, markVariable+"="); ok && (name == test || strings.HasPrefix(name, test+"/")) {
				line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // only for the message
				found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
	}
	return found
}

// kill is kill -9.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("kill %d: %v", pid, err)
	}
}

// running reports whether a child of this process was not waited for.
func running(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}

func noReuse(fd uintptr) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
}
