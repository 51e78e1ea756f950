package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// The labels of what our providers start. Nothing without LabelProvider is ever
// listed or pruned.
const (
	LabelPrefix   = "openenv-go."
	LabelProvider = LabelPrefix + "provider" // which provider started it
	LabelOwner    = LabelPrefix + "owner"    // the process that did, see Owner
)

// Labels adds ours to the user's, which may not touch ours.
func Labels(users map[string]string, provider string) map[string]string {
	all := maps.Clone(users)
	if all == nil {
		all = make(map[string]string, 2)
	}
	all[LabelProvider] = provider
	all[LabelOwner] = Self().String()
	return all
}

// CheckLabel refuses a label that the engine would, or that is one of ours.
func CheckLabel(key string) error {
	switch {
	case key == "":
		return errors.New("label without a name")
	case strings.HasPrefix(key, LabelPrefix):
		return fmt.Errorf("label %s: the names %s* are the provider's own", key, LabelPrefix)
	}
	return nil
}

// Owner is a process, told apart from a later one of the same number and from those
// of other machines and containers.
type Owner struct {
	Host    string `json:"host"`
	Machine string `json:"machine,omitempty"`
	Boot    string `json:"boot,omitempty"`
	Space   string `json:"space,omitempty"` // in which its number counts
	PID     int    `json:"pid"`
	Start   string `json:"start,omitempty"`
}

// Self is this process.
func Self() Owner {
	host, _ := os.Hostname()
	space, _ := os.Readlink("/proc/self/ns/pid")
	return Owner{
		Host: host, Machine: firstLine("/etc/machine-id"), Boot: firstLine("/proc/sys/kernel/random/boot_id"),
		Space: space, PID: os.Getpid(), Start: startTime(os.Getpid()),
	}
}

func (o Owner) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		return "" // strings and a number can be encoded
	}
	return string(b)
}

// ParseOwner reads a label's value; a value that is not one is an owner of which
// nothing is known.
func ParseOwner(label string) Owner {
	var o Owner
	if json.Unmarshal([]byte(label), &o) != nil {
		return Owner{}
	}
	return o
}

// Dead reports whether o is known to have ended. Of a process on another machine, or
// in another container, nothing is known.
func (o Owner) Dead() bool {
	self := Self()
	switch {
	case o.PID <= 0 || o.Host != self.Host || o.Machine != self.Machine:
		return false
	case o.Boot != self.Boot:
		return true // the machine was started anew since
	case o.Space != self.Space:
		return false
	case !running(o.PID):
		return true
	}
	return o.Start != startTime(o.PID)
}

// running reports whether a process of that number exists.
func running(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// startTime is when a process began, in the kernel's ticks: "" of one that has ended
// and is only not waited for yet, and where there is no /proc to tell.
func startTime(pid int) string {
	stat := firstLine("/proc/" + strconv.Itoa(pid) + "/stat")
	// The program's name, in parentheses, may contain anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const field = 22 - 3 // of the kernel's list, which counts from 1; two are cut off
	if len(fields) <= field || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[field]
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
