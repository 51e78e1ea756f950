//go:build unix

package peerproc

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the process the leader of a new group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the group of a process that was not waited for, so that the
// id is still its own. The only possible error is that none of it is left.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
