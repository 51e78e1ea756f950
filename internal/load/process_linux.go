package load

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of processor times in /proc, the same on every Linux that
// Go runs on (proc(5), USER_HZ).
const ticksPerSecond = 100

// cpuOf is the processor time that a process has used, 0 when it cannot be seen.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is a name in parentheses, which may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / ticksPerSecond)
}

// memoryOf is the resident memory of a process, 0 when it cannot be seen.
func memoryOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// listener is the process that listens at the address of a URL of this machine, 0 when
// there is none or it cannot be seen.
func listener(target string) int {
	u, err := url.Parse(target)
	if err != nil {
		return 0
	}
	ip := net.ParseIP(u.Hostname())
	if u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return 0
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return 0
	}
	inodes := make(map[string]bool)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // one that is not there lists nothing
		for line := range strings.Lines(string(text)) {
			// sl, local address:port, remote, state, …, inode (proc_net_tcp)
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	return holder(inodes)
}

// holder is a process that has one of these open.
func holder(names map[string]bool) int {
	if len(names) == 0 {
		return 0
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is well formed
	for _, name := range descriptors {
		if link, err := os.Readlink(name); err == nil && names[link] {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			return pid
		}
	}
	return 0
}
