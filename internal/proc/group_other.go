//go:build !unix

package proc

import (
	"errors"
	"os"
	"os/exec"
)

// group is the program alone, where there are no process groups.
type group struct{ cmd *exec.Cmd }

func newGroup(Config) (*group, error)    { return &group{}, nil }
func (g *group) join(*exec.Cmd)          {}
func (g *group) joined(cmd *exec.Cmd)    { g.cmd = cmd }
func (g *group) terminate() error        { return g.kill() } // there is no signal that asks
func (g *group) alive() bool             { return false }
func (g *group) release()                {}
func exitOf(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }

func (g *group) kill() error {
	if err := g.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
