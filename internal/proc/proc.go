// Package proc runs a program in a process group of its own: it keeps the end of
// what the program writes, notices at once when it exits, and stops the whole
// group, so that a launcher's children do not outlive it.
//
// The group does not outlive this process either, where the system has /bin/sh: a
// shell that leads the group reads from a pipe that only this process holds open. A
// kill -9 of this process ends the pipe, and the shell then ends the group. Linux's
// parent-death signal does less: it is tied to the thread that started the program,
// which the Go runtime may end at any time, and it reaches a launcher but not the
// server that the launcher started. The shell has one more use. It is waited for
// last, so that the group's number stays ours until nobody is left in the group.
//
// A program that leaves its group (a daemon that calls setsid) is not followed.
// Systems without process groups have only the program itself stopped.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

const (
	// lastWords is how long an exit waits for the rest of the output, which comes
	// with the end of the pipe unless a child of the program holds it open.
	lastWords = 200 * time.Millisecond

	// killLimit bounds the wait for a group that was killed. Only a process inside a
	// system call that cannot be interrupted takes longer.
	killLimit = 5 * time.Second

	// minPause and maxPause are the first and the longest pause between two looks at
	// who is left of a group.
	minPause, maxPause = time.Millisecond, 50 * time.Millisecond
)

// Config is a program and how to run it.
type Config struct {
	Path string   // the program's file
	Args []string // without the program's name
	Dir  string   // empty: that of this process
	Env  []string // nil: that of this process

	// Log is called with every line of the output, from one goroutine. The program
	// waits while it runs, once the pipe is full.
	Log func(line string)

	// Orphan is how long the group has after SIGTERM before it is killed, when this
	// process dies. Scratch, if not empty, is a directory that is then removed.
	Orphan  time.Duration
	Scratch string

	unguarded bool // as where there is no shell, for tests
}

// Exit tells how a program ended.
type Exit struct {
	Code   int    // -1 when a signal ended it
	Signal string // such as "killed", empty when it exited by itself
}

// String is "exit status 3" or "signal: killed".
func (e Exit) String() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Process is a program that was started. It is safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	group  *group
	out    *output
	exited chan struct{} // closed when the program has been waited for
	done   chan struct{} // closed after exited, when its last words have arrived
	exit   Exit          // set before done is closed

	stopping chan struct{} // lock: one Stop at a time
	ended    bool          // nobody of the group is left, its number may be another's
}

// Start starts the program. A process that was started must be stopped, even when
// it has exited by itself: others of its group may be left.
func Start(cfg Config) (*Process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	g, err := newGroup(cfg)
	if err != nil {
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	cmd := exec.Command(cfg.Path, cfg.Args...)
	cmd.Dir, cmd.Env = cfg.Dir, cfg.Env
	cmd.Stdout, cmd.Stderr = w, w // files, so that waiting does not mean waiting for the pipe
	g.join(cmd)
	if err := cmd.Start(); err != nil {
		g.release()
		return nil, errors.Join(err, r.Close(), w.Close())
	}
	g.joined(cmd)
	p := &Process{
		cmd: cmd, group: g, out: drain(r, cfg.Log),
		exited: make(chan struct{}), done: make(chan struct{}), stopping: make(chan struct{}, 1),
	}
	go p.watch()
	// Ours has to go, or the pipe never ends. The program has its own.
	if err := w.Close(); err != nil {
		return nil, errors.Join(err, p.Stop(context.Background(), 0))
	}
	return p, nil
}

// watch waits for the program, on a goroutine that Stop waits for.
func (p *Process) watch() {
	defer close(p.done)
	_ = p.cmd.Wait() // how it ended is in the state
	p.exit = exitOf(p.cmd.ProcessState)
	close(p.exited)
	words := time.NewTimer(lastWords)
	defer words.Stop()
	select {
	case <-p.out.done:
	case <-words.C:
	}
}

// Pid is the program's process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program has exited, by itself or by Stop.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit tells how the program ended; only after Done.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Tail is the end of what the program and its children wrote, in whole lines.
func (p *Process) Tail() string { return p.out.tail() }

// Stop asks the group to end, kills what is left of it after grace, and returns
// when nobody is. When ctx ends the grace does, too. Stop is idempotent; after an
// error the group may live on, and Stop can be called again.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	select {
	case p.stopping <- struct{}{}:
	default:
		select {
		case p.stopping <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() { <-p.stopping }()
	if !p.ended {
		if err := p.end(ctx, grace); err != nil {
			return err
		}
		p.group.release()
		p.ended = true
	}
	<-p.done
	return p.out.close()
}

// end leaves nobody of the group alive.
func (p *Process) end(ctx context.Context, grace time.Duration) error {
	polite, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := p.group.terminate(); err == nil && p.gone(polite) {
		return nil
	}
	// Killing takes its time even when the caller has none: a group that is left
	// alone now may never be stopped.
	killed, cancel := context.WithTimeout(context.WithoutCancel(ctx), killLimit)
	defer cancel()
	if err := p.group.kill(); err != nil {
		return fmt.Errorf("kill process group of %d: %w", p.Pid(), err)
	}
	if !p.gone(killed) {
		return fmt.Errorf("process group of %d lives on after it was killed", p.Pid())
	}
	return nil
}

// gone waits until nobody of the group is alive, and reports whether that is so.
func (p *Process) gone(ctx context.Context) bool {
	select {
	case <-p.exited:
	case <-ctx.Done():
		return false
	}
	for pause := minPause; p.group.alive(); pause = min(2*pause, maxPause) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
	return true
}
