package proc

import (
	"bytes"
	"os"
	"strconv"
)

// members lists the processes of a group that are alive. Asking the kernel by
// signal 0 does not tell them from those that are dead and were not waited for:
// our guard, and orphans in a container whose first process does not care. It
// reports false where it cannot know.
func members(group int) (pids []int, ok bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer dir.Close() //nolint:errcheck // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, false
	}
	self := false
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		self = self || pid == os.Getpid()
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // gone meanwhile
		}
		if state, pgrp, ok := parseStat(stat); ok && pgrp == group && state != 'Z' && state != 'X' {
			pids = append(pids, pid)
		}
	}
	return pids, self // without this process in it, it is not a /proc of ours
}

// parseStat reads "pid (name) state ppid pgrp …"; the name can hold anything.
func parseStat(stat []byte) (state byte, pgrp int, ok bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 3 || len(fields[0]) != 1 {
		return 0, 0, false
	}
	pgrp, err := strconv.Atoi(string(fields[2]))
	return fields[0][0], pgrp, err == nil
}
