//go:build unix

package proc

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// shell is where every Unix has one, but for images that hold a single program.
const shell = "/bin/sh"

// guardScript waits for the end of its standard input, which is the end of the
// owner, and then ends its group. Signals to the group are meant for the others.
const guardScript = `trap '' HUP INT QUIT TERM
read -r _
kill -TERM 0
sleep "$1"
[ -z "$2" ] || rm -rf -- "$2"
kill -KILL 0`

// group is a process group, led by the guard or, without a shell, by the program.
type group struct {
	id    int
	guard *exec.Cmd // nil without a shell, and when it was waited for
	leash *os.File  // the guard's standard input is its other end
}

func newGroup(cfg Config) (*group, error) {
	if _, err := os.Stat(shell); cfg.unguarded || errors.Is(err, fs.ErrNotExist) {
		return &group{}, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	guard := exec.Command(shell, "-c", guardScript, "sh", seconds(cfg.Orphan), cfg.Scratch)
	guard.Dir = "/" // no file system is kept busy by it
	guard.Env = []string{"PATH=" + os.Getenv("PATH")}
	guard.Stdin = r
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = guard.Start()
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return &group{id: guard.Process.Pid, guard: guard, leash: w}, nil
}

// seconds is d for sleep, which by the standard takes whole seconds.
func seconds(d time.Duration) string {
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

// join makes the program that cmd will start a member.
func (g *group) join(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.id}
}

func (g *group) joined(cmd *exec.Cmd) {
	if g.id == 0 {
		g.id = cmd.Process.Pid
	}
}

func (g *group) terminate() error { return g.signal(syscall.SIGTERM) }
func (g *group) kill() error      { return g.signal(syscall.SIGKILL) }

func (g *group) signal(s syscall.Signal) error {
	if err := syscall.Kill(-g.id, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// alive reports whether anybody but the guard is left; the program was waited for.
func (g *group) alive() bool {
	if pids, ok := members(g.id); ok {
		for _, pid := range pids {
			if g.guard == nil || pid != g.guard.Process.Pid {
				return true
			}
		}
		return false
	}
	// One answer for the whole group: its leader must not be in it.
	g.dismiss()
	return syscall.Kill(-g.id, 0) == nil
}

// dismiss ends the guard.
func (g *group) dismiss() {
	if g.guard == nil {
		return
	}
	_ = g.guard.Process.Kill() // an error says that it has ended
	_ = g.guard.Wait()         // by a signal
	g.guard = nil
}

// release lets go of a group that nobody is left in.
func (g *group) release() {
	g.dismiss()
	if g.leash != nil {
		_ = g.leash.Close() // nobody reads from it any more
	}
}

func exitOf(state *os.ProcessState) Exit {
	e := Exit{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal().String()
	}
	return e
}
