package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that speaks in lines.
type process struct {
	url   string // of a server
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

func startProcess(ctx context.Context, name string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
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

// stopLimit is how long a program may take to end by itself.
const stopLimit = 10 * time.Second

func (p *process) stop() {
	p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.AfterFunc(stopLimit, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait() // how it ends is of no interest
}

// line reads what follows prefix in the next line.
func (p *process) line(prefix string) (string, error) {
	line, err := p.lines.ReadString('\n')
	rest, found := strings.CutPrefix(strings.TrimSpace(line), prefix)
	if err != nil || !found {
		return "", fmt.Errorf("%s said %q, not %q: %w", p.cmd.Path, line, prefix, err)
	}
	return rest, nil
}

// ask writes a line and decodes the next one.
func (p *process) ask(line string, answer any) error {
	if _, err := fmt.Fprintln(p.stdin, line); err != nil {
		return err
	}
	text, err := p.lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

const childCommand = "serve-child"

// serveChild is the second process: it prints its addresses and serves until its
// standard input ends.
func serveChild() error {
	s, err := startServers()
	if err != nil {
		return err
	}
	defer s.close()
	if err := json.NewEncoder(os.Stdout).Encode(s.addresses); err != nil {
		return err
	}
	buf := make([]byte, 1)
	_, _ = os.Stdin.Read(buf) // the parent is gone
	return nil
}

// startChild starts this program as the second process.
func startChild(ctx context.Context) (addresses, *process, error) {
	var at addresses
	self, err := os.Executable()
	if err != nil {
		return at, nil, err
	}
	p, err := startProcess(ctx, self, childCommand)
	if err != nil {
		return at, nil, err
	}
	line, err := p.lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &at)
	}
	if err != nil {
		p.stop()
		return at, nil, fmt.Errorf("second process: %w", err)
	}
	return at, p, nil
}

// startOenv serves an environment that ships with the command itself.
func startOenv(ctx context.Context, oenv, name string, sessions int) (*process, error) {
	p, err := startProcess(ctx, oenv, "serve", name, "--port", "0", "--json", "--max-sessions", strconv.Itoa(sessions))
	if err != nil {
		return nil, err
	}
	var said struct {
		URL string `json:"url"`
	}
	line, err := p.lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("oenv serve: %w", err)
	}
	p.url = said.URL
	return p, nil
}

// startPeer serves an environment with the Python package.
func startPeer(ctx context.Context, python, env string, sessions int) (*process, error) {
	p, err := startProcess(ctx, python, "bench/peer.py", "--env", env, "--port", "0", "--max-sessions", strconv.Itoa(sessions))
	if err != nil {
		return nil, fmt.Errorf("python server: %w", err)
	}
	port, err := p.line("LISTENING ")
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("python server: %w", err)
	}
	p.url = "http://127.0.0.1:" + port
	return p, nil
}

//go:embed client.py
var pythonClient string

// startPythonClient runs client.py until it is ready.
func startPythonClient(ctx context.Context, python string, args ...string) (*process, error) {
	p, err := startProcess(ctx, python, append([]string{"-c", pythonClient}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("python client: %w", err)
	}
	if _, err := p.line("READY"); err != nil {
		p.stop()
		return nil, fmt.Errorf("python client: %w", err)
	}
	return p, nil
}

// pythonClients are the two programs that step with the Python package's client.
type pythonClients map[string]*process

func startPythonClients(ctx context.Context, python string) (pythonClients, error) {
	clients := make(pythonClients)
	for client, face := range map[string]string{pyAsync: "async", pySync: "sync"} {
		p, err := startPythonClient(ctx, python, face)
		if err != nil {
			clients.stop()
			return nil, err
		}
		clients[client] = p
	}
	return clients, nil
}

// batch is client.py's answer to one.
type batch struct {
	Succeeded int            `json:"succeeded"`
	Seconds   float64        `json:"seconds"`
	P99       float64        `json:"total_p99"`
	Failures  map[string]int `json:"failures"`
	CPU       float64        `json:"cpu_seconds"`
}

// askBatch runs sessions that begin at once; wait is that of their one step, or "-".
func askBatch(p *process, url string, sessions, dials int, wait string) (b batch, err error) {
	if err := p.ask(fmt.Sprintf("batch %s %d %d %s", url, sessions, dials, wait), &b); err != nil {
		return b, fmt.Errorf("python client: %w", err)
	}
	return b, nil
}

func (c pythonClients) stop() {
	for _, p := range c {
		p.stop()
	}
}

// contender makes one of the clients that k names.
func (c pythonClients) contender(k key, url string) (*contender, error) {
	p := c[k.client]
	name := fmt.Sprintf("%d-%d-%s", k.sessions, k.size, strings.TrimPrefix(url, "http://"))
	if err := p.ask(fmt.Sprintf("open %s %s %d %s", name, url, k.sessions, message(k.size)), new(struct{})); err != nil {
		return nil, fmt.Errorf("python client: %w", err)
	}
	return &contender{
		key: k,
		end: func() { _ = p.ask("close "+name, new(struct{})) }, // the process may have failed
		round: func(_ context.Context, d time.Duration) (int, time.Duration, error) {
			var answer struct {
				Steps   int     `json:"steps"`
				Seconds float64 `json:"seconds"`
			}
			if err := p.ask(fmt.Sprintf("round %s %f", name, d.Seconds()), &answer); err != nil {
				return 0, 0, fmt.Errorf("python client: %w", err)
			}
			return answer.Steps, time.Duration(answer.Seconds * float64(time.Second)), nil
		},
	}, nil
}
