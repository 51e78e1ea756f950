package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds every wait for another process.
const patience = 20 * time.Second

// launched is a server in a process of its own.
type launched struct {
	cmd    *exec.Cmd
	line   string // the first it printed
	url    string
	exit   chan struct{} // closed when the process has ended
	rest   bytes.Buffer  // the rest of its output, complete then
	stderr bytes.Buffer  // likewise
}

// launch starts a server and waits for the line with its URL.
func launch(cmd *exec.Cmd) (*launched, error) {
	s := &launched{cmd: cmd, exit: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &s.stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	first := make(chan string, 1)
	go func() {
		defer close(s.exit)
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		first <- line
		_, _ = io.Copy(&s.rest, r)
		_ = cmd.Wait() // its exit code is in cmd.ProcessState
	}()
	select {
	case s.line = <-first:
	case <-time.After(patience):
	}
	if at := strings.Index(s.line, "http://"); at >= 0 {
		s.url = strings.FieldsFunc(s.line[at:], func(r rune) bool { return r == '"' || r == '\n' || r == ' ' })[0]
		return s, nil
	}
	s.kill()
	return nil, fmt.Errorf("%v printed %q instead of its URL\n%s", cmd.Args, s.line, s.stderr.Bytes())
}

func (s *launched) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exit
}

func (s *launched) signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// ends waits for the end of the process and returns its exit code.
func (s *launched) ends() (code int, err error) {
	select {
	case <-s.exit:
		return s.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return 0, fmt.Errorf("%v does not end", s.cmd.Args)
	}
}

// serveCommand is oenv serve with args.
func serveCommand(env []string, args ...string) (*exec.Cmd, error) {
	oenv, err := exec.LookPath("oenv")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(oenv, append([]string{"serve"}, args...)...)
	cmd.Env = append([]string{"GORACE=" + noExitDelay}, env...)
	return cmd, nil
}

// startServe runs oenv serve until the test ends.
func startServe(t *testing.T, env []string, args ...string) *launched {
	t.Helper()
	cmd, err := serveCommand(env, args...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

type launchedKey struct{}

// serving runs oenv serve beside the script and puts its URL into a variable:
// serving VAR ARGS….
func serving(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: serving variable args...")
	}
	var env []string
	for _, name := range []string{tokenVariable, "MAX_CONCURRENT_ENVS", "OPENENV_MODE"} {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	cmd, err := serveCommand(env, args[1:]...)
	ts.Check(err)
	beside(ts, args[0], cmd)
}

// launching runs any command of oenv that prints a URL and stays, as serving does:
// launching VAR COMMAND ARGS….
func launching(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: launching variable command args...")
	}
	oenv, err := exec.LookPath("oenv")
	ts.Check(err)
	cmd := exec.Command(oenv, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"GORACE=" + noExitDelay}
	beside(ts, args[0], cmd)
}

// beside runs a command beside the script and puts its URL into a variable.
func beside(ts *testscript.TestScript, name string, cmd *exec.Cmd) {
	s, err := launch(cmd)
	ts.Check(err)
	ts.Defer(s.kill)
	ts.Value(launchedKey{}).(map[string]*launched)[name] = s
	ts.Setenv(name, s.url)
}

// ending ends such a server by SIGTERM and gives what it wrote to stdout and stderr:
// ending VAR CODE.
func ending(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ending variable code")
	}
	s, ok := ts.Value(launchedKey{}).(map[string]*launched)[args[0]]
	if !ok {
		ts.Fatalf("no server is called %s", args[0])
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(s.signal(syscall.SIGTERM))
	got, err := s.ends()
	ts.Check(err)
	_, _ = io.WriteString(ts.Stdout(), s.line+s.rest.String())
	_, _ = ts.Stderr().Write(s.stderr.Bytes())
	if got != want {
		ts.Fatalf("exit code %d, want %d; it wrote %s", got, want, s.stderr.Bytes())
	}
}

func portOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Port()
}
