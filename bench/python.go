package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed client.py
var pythonClient string

// pythonContenders are the Python client on both servers, and ours on the Python one.
func pythonContenders(ctx context.Context, python string, child addresses) ([]*contender, error) {
	server, err := startPythonServer(ctx, python)
	if err != nil {
		return nil, err
	}
	var cs []*contender
	for i, size := range []int{smallSize, largeSize} {
		onGo, err := newPythonClient(ctx, python, pyOnGo, child.Env, size)
		if err != nil {
			return nil, errors.Join(err, server.stop())
		}
		onPy, err := newPythonClient(ctx, python, pyOnPy, server.url, size)
		if err != nil {
			return nil, errors.Join(err, server.stop())
		}
		ours, err := newStep(goOnPy, server.url, size, blocking)
		if err != nil {
			return nil, errors.Join(err, server.stop())
		}
		if i == 0 {
			end := onPy.end
			onPy.end = func() { end(); _ = server.stop() }
		}
		cs = append(cs, onGo, ours, onPy)
	}
	return cs, nil
}

type process struct {
	url   string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// startProcess runs a Python program whose input and output are lines.
func startProcess(ctx context.Context, python string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, python, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd: cmd, stdin: stdin, lines: bufio.NewReader(stdout)}, nil
}

func (p *process) stop() error {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(os.Interrupt)
	timer := time.AfterFunc(3*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait() // how it ends is of no interest
	return nil
}

func startPythonServer(ctx context.Context, python string) (*process, error) {
	script := filepath.Join("interop", "peer", "server.py")
	p, err := startProcess(ctx, python, script, "--env", "echo", "--port", "0", "--max-sessions", "64")
	if err != nil {
		return nil, fmt.Errorf("python server: %w", err)
	}
	line, err := p.lines.ReadString('\n')
	port, found := strings.CutPrefix(strings.TrimSpace(line), "LISTENING ")
	if err != nil || !found {
		return nil, errors.Join(fmt.Errorf("python server said %q: %w", line, err), p.stop())
	}
	p.url = "http://127.0.0.1:" + port
	return p, nil
}

// newPythonClient starts a Python client that makes round trips for as long as each
// line of its input says, and answers with their number.
func newPythonClient(ctx context.Context, python, name, url string, size int) (*contender, error) {
	p, err := startProcess(ctx, python, "-c", pythonClient, url, strconv.Itoa(size))
	if err != nil {
		return nil, fmt.Errorf("python client: %w", err)
	}
	return &contender{name: name, size: size, end: func() { _ = p.stop() }, many: func(d time.Duration) (int, error) {
		if _, err := fmt.Fprintln(p.stdin, d.Seconds()); err != nil {
			return 0, err
		}
		line, err := p.lines.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("python client: %w", err)
		}
		return strconv.Atoi(strings.TrimSpace(line))
	}}, nil
}
