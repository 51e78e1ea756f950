package policy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/openenv-go/openenv/rollout"
)

// Command is a policy that is a process. It reads one JSON line for each action that is
// wanted and writes one: docs/policies.md is the protocol. As many processes run as
// episodes are played at once; each plays one episode after the other.
type Command struct {
	args   []string
	stderr io.Writer

	mu     sync.Mutex
	idle   []*process
	closed bool
}

// NewCommand makes a policy of a program and its arguments. What the processes write to
// standard error goes to stderr, which may be nil. Nothing is started yet. Whoever made
// it closes it, after the run.
func NewCommand(stderr io.Writer, program string, args ...string) *Command {
	return &Command{args: append([]string{program}, args...), stderr: stderr}
}

// Name is the command line.
func (c *Command) Name() string { return "command:" + strings.Join(c.args, " ") }

// Close ends the processes: their standard input ends, and one that has not ended soon
// is killed.
func (c *Command) Close() error {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.closed = nil, true
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range idle {
		wg.Go(p.end)
	}
	wg.Wait()
	return nil
}

// Begin takes a process that is idle, or starts one.
func (c *Command) Begin(_ context.Context, start rollout.Start) (rollout.Player[json.RawMessage, json.RawMessage], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("command policy is closed")
	}
	p := &commandPlayer{policy: c, start: start, seed: start.Rand.Uint32()}
	if n := len(c.idle); n > 0 {
		p.process = c.idle[n-1]
		c.idle = c.idle[:n-1]
		return p, nil
	}
	var err error
	p.process, err = startProcess(c.args, c.stderr)
	return p, err
}

// commandPlayer is one attempt. It has a process to itself.
type commandPlayer struct {
	policy  *Command
	process *process
	start   rollout.Start
	seed    uint32
	step    int
	broken  bool // the process is in the middle of something
}

// question is the line that a process reads.
type question struct {
	Episode     int             `json:"episode"`
	Attempt     int             `json:"attempt"`
	Seed        uint32          `json:"seed"` // for the policy's own chance
	Step        int             `json:"step"`
	Observation json.RawMessage `json:"observation"`
	Reward      *float64        `json:"reward"`
	Done        bool            `json:"done"`
	Schema      json.RawMessage `json:"action_schema,omitempty"` // in the first line of an episode
}

// answer is the line that it writes.
type answer struct {
	Action json.RawMessage `json:"action"`
	Stop   bool            `json:"stop"`
	Error  string          `json:"error"`
}

func (p *commandPlayer) Act(ctx context.Context, last rawResult) (json.RawMessage, error) {
	q := question{
		Episode: p.start.Episode, Attempt: p.start.Attempt, Seed: p.seed, Step: p.step,
		Observation: last.Observation, Reward: last.Reward, Done: last.Done,
	}
	if p.step == 0 {
		q.Schema = p.start.Schema.Action
	}
	p.step++
	asked, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	p.broken = true
	defer context.AfterFunc(ctx, p.process.kill)()
	said, err := p.process.ask(asked)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(said, &a); err != nil {
		return nil, fmt.Errorf("command policy: its answer is no JSON object: %w: %.200q", err, said)
	}
	p.broken = false
	switch {
	case a.Error != "":
		return nil, fmt.Errorf("command policy says: %s", a.Error)
	case a.Stop:
		return nil, rollout.ErrStop
	case len(bytes.TrimSpace(a.Action)) == 0:
		return nil, fmt.Errorf("command policy: its answer has no action: %.200q", said)
	}
	return a.Action, nil
}

// Close gives the process back, or ends it.
func (p *commandPlayer) Close() error {
	if !p.broken {
		p.policy.mu.Lock()
		defer p.policy.mu.Unlock()
		if !p.policy.closed {
			p.policy.idle = append(p.policy.idle, p.process)
			return nil
		}
	}
	p.process.kill()
	p.process.end()
	return nil
}

// process is a program that was started.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	ended sync.Once
	err   error // how it ended, after end
}

// endLimit is how long a process has to end after its standard input did.
const endLimit = 5 * time.Second

func startProcess(args []string, stderr io.Writer) (*process, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = stderr
	cmd.WaitDelay = endLimit
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("command policy: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("command policy: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("command policy: %w", err)
	}
	return &process{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// ask writes a line and reads one.
func (p *process) ask(question []byte) ([]byte, error) {
	_, err := p.in.Write(append(question, '\n'))
	if err == nil {
		var said []byte
		if said, err = p.out.ReadBytes('\n'); err == nil {
			return said, nil
		}
	}
	p.end()
	if p.err != nil {
		err = p.err
	}
	return nil, fmt.Errorf("command policy: the process %s ended without an answer: %w", p.cmd.Path, err)
}

// kill ends the process at once. It may be called at any time.
func (p *process) kill() { _ = p.cmd.Process.Kill() } // its error is that it has ended

// end waits for the process, which it asks to end first.
func (p *process) end() {
	p.ended.Do(func() {
		_ = p.in.Close() // it may be gone
		defer time.AfterFunc(endLimit, p.kill).Stop()
		p.err = p.cmd.Wait()
	})
}
