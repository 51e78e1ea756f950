//go:build unix

package dockertest

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed keeper.sh
var keeper string

// startLimit bounds the start of an engine, which takes two seconds.
const startLimit = time.Minute

// startEngine starts the tests' own engine if it does not run; the caller holds the
// mutex, and takes the users' lock before it gives that back.
func startEngine(dir, host string) error {
	if keeperLives(dir) && ping(host) == nil {
		return nil
	}
	if os.Getuid() != 0 {
		return fmt.Errorf("none at DOCKER_HOST or %s, and only root can start one", "/var/run/docker.sock")
	}
	for _, program := range []string{"dockerd", "flock", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("no %s to start one: run `make engine`", program)
		}
	}
	endRest(dir)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("sh", "-c", keeper, "keeper", dir)
	// It outlives this process, whose terminal, output and lock are none of its business.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = log, log
	// The users' lock is held across the start: the keeper must find a user.
	release, err := lock(dir, "users", shared)
	if err != nil {
		return err
	}
	defer release()
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "keeper.pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	died := make(chan struct{})
	go func() { _ = cmd.Wait(); close(died) }()
	for deadline := time.Now().Add(startLimit); ; {
		if ping(host) == nil {
			return nil
		}
		select {
		case <-died:
			return fmt.Errorf("dockerd does not start: %s", lastLine(log.Name()))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-died
			return fmt.Errorf("dockerd does not answer within %v: %s", startLimit, lastLine(log.Name()))
		}
	}
}

// endRest ends what a keeper that was killed itself has left behind.
func endRest(dir string) {
	for _, name := range []string{"keeper.pid", "dockerd.pid"} {
		pid := readPID(dir, name)
		if pid > 0 && strings.Contains(commandLine(pid), dir) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
			for range 100 {
				if commandLine(pid) == "" {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
}

func keeperLives(dir string) bool {
	pid := readPID(dir, "keeper.pid")
	return pid > 0 && strings.Contains(commandLine(pid), dir)
}

func readPID(dir, name string) int {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(b)))
	return pid
}

func commandLine(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
}

func lastLine(name string) string {
	b, _ := os.ReadFile(name)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
