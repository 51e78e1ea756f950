//go:build !unix

package peerproc

import "os/exec"

// ownGroup does nothing where there are no process groups.
func ownGroup(*exec.Cmd) {}

// killGroup kills the process alone. The only possible error is that it has
// ended.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
