package proc

import (
	"os"
	"slices"
	"syscall"
	"testing"
)

func TestParseStat(t *testing.T) {
	for _, tt := range []struct {
		name, stat string
		state      byte
		group      int
		ok         bool
	}{
		{"usual", "12 (sh) S 1 10 10 0", 'S', 10, true},
		{"a name of its own kind", "12 (a) R 9 9 (b) Z 1 10 10 0", 'Z', 10, true},
		{"nothing", "", 0, 0, false},
		{"short", "12 (sh) S 1", 0, 0, false},
		{"no number", "12 (sh) S 1 x", 'S', 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, group, ok := parseStat([]byte(tt.stat))
			if state != tt.state || group != tt.group || ok != tt.ok {
				t.Errorf("got %q, %d, %v", state, group, ok)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	pids, ok := members(syscall.Getpgrp())
	if !ok || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("got %v, %v, want this process in it", pids, ok)
	}
}
