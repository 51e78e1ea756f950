//go:build unix

package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/openenv-go/openenv/internal/leak"
)

// oenvCommand is oenv with args and a clean environment.
func oenvCommand(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	oenv, err := exec.LookPath("oenv")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(oenv, args...)
	cmd.Env = append([]string{"GORACE=" + noExitDelay, "PATH=" + os.Getenv("PATH"), "DOCKER_HOST=" + os.Getenv("DOCKER_HOST")}, env...)
	return cmd
}

// startRun runs oenv run until the test ends.
func startRun(t *testing.T, env []string, args ...string) *launched {
	t.Helper()
	s, err := launch(oenvCommand(t, env, append([]string{"run"}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// answering checks that an environment serves at the URL.
func answering(t *testing.T, url string) {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	res, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("health %s", res.Status)
	}
}

func TestRunProcess(t *testing.T) {
	for _, tt := range []struct {
		sig  os.Signal
		args []string
		want func(line string) bool
	}{
		{syscall.SIGTERM, nil, func(line string) bool { return strings.HasPrefix(line, "running oenv by process at http://127.0.0.1:") }},
		{os.Interrupt, []string{"--json", "--env", "MAX_CONCURRENT_ENVS=7"}, func(line string) bool {
			var d runReady
			return json.Unmarshal([]byte(line), &d) == nil && d.Source == "oenv" && d.Provider == "process" && len(d.URLs) == 1 && d.URL == d.URLs[0]
		}},
		{syscall.SIGHUP, []string{"--quiet"}, func(string) bool { return true }},
	} {
		t.Run(tt.sig.String(), func(t *testing.T) {
			leak.Check(t)
			s := startRun(t, nil, append(tt.args, "--", "oenv", "serve", "echo", "--port", "{port}")...)
			answering(t, s.url)
			if !tt.want(s.line) {
				t.Errorf("it printed %q", s.line)
			}
			if len(tt.args) == 3 {
				if got := metric(t, s.url, "openenv_sessions_limit"); got != 7 {
					t.Errorf("%v sessions, want 7", got)
				}
			}
			send(t, s, tt.sig)
			endsWith(t, s, 0)
			closed(t, s.url)
			log := ""
			if !strings.Contains(strings.Join(tt.args, " "), "quiet") {
				log = "serving echo on " + s.url + "\n"
			}
			if s.rest.Len() > 0 || s.stderr.String() != log {
				t.Errorf("it wrote %q and %q, want the log %q", s.rest.Bytes(), s.stderr.Bytes(), log)
			}
		})
	}
}

// stubborn is a command whose server ends and which does not.
var stubborn = []string{"--", "sh", "-c", `trap '' TERM; oenv serve echo --port "$PORT"; while :; do sleep 1; done`}

func TestRunStopsWhatIsDeaf(t *testing.T) {
	leak.Check(t)
	s := startRun(t, nil, append([]string{"--stop-timeout", "600ms"}, stubborn...)...)
	send(t, s, syscall.SIGTERM)
	endsWith(t, s, 0)
}

func TestRunGivesUpAtTheSecondSignal(t *testing.T) {
	for _, tt := range []struct {
		second os.Signal
		code   int
	}{{syscall.SIGTERM, exitTerminated}, {os.Interrupt, exitInterrupted}} {
		t.Run(tt.second.String(), func(t *testing.T) {
			leak.Check(t)
			s := startRun(t, nil, append([]string{"--quiet", "--stop-timeout", "15s"}, stubborn...)...)
			send(t, s, syscall.SIGTERM)
			closed(t, s.url)
			send(t, s, tt.second)
			endsWith(t, s, tt.code)
			if want := "oenv: run: ended by a second signal (" + tt.second.String() + `): its end was not waited for, "oenv prune" removes what is left` + "\n"; s.stderr.String() != want {
				t.Errorf("it wrote %q, want %q", s.stderr.String(), want)
			}
		})
	}
}

// Told to end before it is ready: nothing was printed, and nothing stays.
func TestRunInterruptedAtTheStart(t *testing.T) {
	leak.Check(t)
	file := filepath.Join(t.TempDir(), "pid")
	cmd := oenvCommand(t, nil, "run", "--", "sh", "-c", `echo $$ > "$1.new" && mv "$1.new" "$1"; exec sleep 1000`, "sh", file)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid := pidIn(t, file)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 100)
	n, _ := out.Read(text)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitInterrupted || string(text[:n]) != "oenv: interrupted\n" {
		t.Errorf("it ended with %v and %q", err, text[:n])
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the command is alive: %v", err)
	}
}

// pidIn waits for a process number in a file.
func pidIn(t *testing.T, file string) (pid int) {
	t.Helper()
	until(t, "a process number", func() bool {
		text, err := os.ReadFile(file)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	return pid
}

// The command dies by itself, and when its owner is killed.
func TestRunProcessDies(t *testing.T) {
	leak.Check(t)
	file := filepath.Join(t.TempDir(), "pid")
	command := []string{"--quiet", "--", "sh", "-c", `oenv serve echo --port "$PORT" & echo $! > "$1"; wait $!; echo "  last words"; exit 7`, "sh", file}
	s := startRun(t, nil, command...)
	if err := syscall.Kill(pidIn(t, file), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	endsWith(t, s, 1)
	want := "oenv: run: sh exited with status 7; its output ended with:\n  serving echo on " + s.url + "\n  last words\n"
	if s.stderr.String() != want {
		t.Errorf("it wrote %q, want %q", s.stderr.String(), want)
	}
	s = startRun(t, nil, command...)
	s.kill()
	closed(t, s.url)
}

// A uv that runs our server in place of the project's.
func TestRunProject(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	project := filepath.Join(dir, "echo_env")
	for name, text := range map[string]string{
		"uv":                      "#!/bin/sh\necho \"uv $*\"\nexec oenv serve echo --port \"$PORT\"\n",
		"echo_env/pyproject.toml": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := startRun(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, project)
	answering(t, s.url)
	if want := "running " + project + " by uv at " + s.url + "\n"; s.line != want {
		t.Errorf("it printed %q, want %q", s.line, want)
	}
	send(t, s, syscall.SIGTERM)
	endsWith(t, s, 0)
	if log := s.stderr.String(); !strings.HasPrefix(log, "uv run --isolated --project "+project+" ") {
		t.Errorf("its log is %q", log)
	}
}
