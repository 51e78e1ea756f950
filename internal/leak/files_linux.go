package leak

import (
	"os"
	"path/filepath"
	"strings"
)

// openFiles lists the open descriptors of the process as "number target".
func openFiles() []string {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var open []string
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		if err != nil {
			// Closed meanwhile, as the descriptor that read the directory is.
			continue
		}
		if !runtimeOwned(target) {
			open = append(open, entry.Name()+" "+target)
		}
	}
	return open
}

// runtimeOwned reports whether target is the network poller's: the runtime
// opens it with the first connection and keeps it.
func runtimeOwned(target string) bool {
	return strings.HasPrefix(target, "anon_inode:[eventpoll]") ||
		strings.HasPrefix(target, "anon_inode:[eventfd]")
}
