//go:build unix

package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/openenv-go/openenv/internal/leak"
)

// screen is a terminal with oenv in it.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	term *os.File
	exit chan struct{} // closed when the process has ended

	mu   sync.Mutex
	text string
	more chan struct{} // closed and replaced when text grows, closed when it is complete
	done bool
}

// startScreen runs oenv in a terminal of 80 columns, with env added to a clean
// environment.
func startScreen(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	oenv, err := exec.LookPath("oenv")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(oenv, args...)
	cmd.Env = append([]string{"TERM=xterm", "GORACE=" + noExitDelay}, env...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, cmd: cmd, term: terminal, more: make(chan struct{}), exit: make(chan struct{})}
	var own sync.WaitGroup
	own.Go(s.read)
	own.Go(func() {
		_ = cmd.Wait() // its exit code is in cmd.ProcessState
		close(s.exit)
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.exit
		terminal.Close()
		own.Wait()
	})
	return s
}

func (s *screen) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.term.Read(buf)
		s.mu.Lock()
		s.text += string(buf[:n])
		close(s.more)
		s.more = make(chan struct{})
		if err != nil { // EIO is how a terminal says that nobody writes to it any more
			s.done = true
			close(s.more)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// expect waits for text and returns everything up to its end, which is then used up.
func (s *screen) expect(text string) string {
	s.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		before, after, found := strings.Cut(s.text, text)
		if found {
			s.text = after
			s.mu.Unlock()
			return before + text
		}
		shown, more, done := s.text, s.more, s.done
		s.mu.Unlock()
		if done {
			s.t.Fatalf("the program ended without %q; it wrote %q", text, shown)
		}
		select {
		case <-more:
		case <-deadline.C:
			s.t.Fatalf("waited for %q, found %q", text, shown)
		}
	}
}

func (s *screen) send(text string) {
	s.t.Helper()
	if _, err := s.term.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end of the program, checks its exit code, and returns what it
// wrote since the last expect.
func (s *screen) ends(code int) string {
	s.t.Helper()
	select {
	case <-s.exit:
	case <-time.After(patience):
		s.t.Fatal("the program does not end")
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("exit code %d, want %d", got, code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.done {
		more := s.more
		s.mu.Unlock()
		<-more
		s.mu.Lock()
	}
	return s.text
}

const (
	ctrlCKey = "\x03"
	ctrlDKey = "\x04"
	upKey    = "\x1b[A"
	prompt   = "\x1b[36moenv>\x1b[0m "
)

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// An episode by hand: a prompt, colours, a mistake with its place, a step that is
// interrupted, and a new episode after it.
func TestPlayOnTerminal(t *testing.T) {
	leak.Check(t)
	url, waiting := startEcho(t, 4)
	s := startScreen(t, nil, "play", url)

	s.expect("connected to " + url + "; help shows what a line may be\r\n")
	s.expect(prompt)
	s.send("help\r")
	s.expect("\x1b[1mreset [key=value …]\x1b[0m  start an episode")
	s.expect(prompt)
	s.send("reset seed=3\r")
	s.expect("\x1b[2mobservation  \x1b[0m" + `{"echoed":"ready","length":0,"metadata":{}}` + "\r\n")
	s.expect(prompt)
	s.send(`{"msg": 3}` + "\r")
	s.expect("\x1b[31mVALIDATION_ERROR\x1b[0m Invalid message\r\n")
	s.expect("  \x1b[1mmessage\x1b[0m: Field required (missing)\r\n")
	s.expect("  \x1b[1mmsg\x1b[0m: Extra inputs are not permitted (extra_forbidden)\r\n")
	s.expect(prompt)
	s.send("jump\r")
	s.expect(`BAD_LINE` + "\x1b[0m " + `"jump" is not understood`)
	s.expect(prompt)
	s.send(`{"message": "done"}` + "\r")
	s.expect("\x1b[2mreward       \x1b[0m\x1b[32m0.4\x1b[0m\r\n")
	s.expect("the episode has ended, reset starts another")
	s.expect(prompt)
	s.send(upKey + "\r") // the history
	s.expect(`"echoed":"done"`)
	s.expect(prompt)

	s.send(`{"message": "wait"}` + "\r")
	select {
	case <-waiting:
	case <-time.After(patience):
		t.Fatal("the step did not reach the server")
	}
	s.send(ctrlCKey)
	s.expect("\x1b[31mINTERRUPTED\x1b[0m step was interrupted\r\n  reset starts a new episode\r\n")
	s.expect(prompt)
	s.send(`{"message": "on"}` + "\r")
	s.expect("\x1b[31mSESSION_LOST\x1b[0m")
	s.expect("  reset starts a new episode\r\n")
	s.expect(prompt)
	s.send("reset\r")
	s.expect(`"echoed":"ready"`)
	s.expect(prompt)
	s.send("state\r")
	s.expect(`"step_count":0`)
	s.expect(prompt)
	s.send(ctrlDKey)
	s.ends(exitOK) // mistakes at the prompt are not the program's
}

// Lines that are pasted wait in the editor until it is their turn.
func TestPlayPastedLines(t *testing.T) {
	leak.Check(t)
	url, _ := startEcho(t, 4)
	s := startScreen(t, []string{"NO_COLOR=1"}, "play", url)
	s.expect("oenv> ")
	s.send("reset\r" + `{"message": "one"}` + "\r\n" + `{"message": "two"}` + "\nquit\n")
	s.expect(`"echoed":"ready"`)
	s.expect(`"echoed":"one"`)
	s.expect(`"echoed":"two"`)
	s.ends(exitOK)
}

func TestPlayLeavesTheTerminalAsItWas(t *testing.T) {
	leak.Check(t)
	url, _ := startEcho(t, 4)
	for _, tt := range []struct {
		name  string
		leave func(*screen)
		code  int
	}{
		{"quit", func(s *screen) { s.send("quit\r") }, exitOK},
		{"Ctrl-D", func(s *screen) { s.send(ctrlDKey) }, exitOK},
		{"Ctrl-C", func(s *screen) { s.send("half a li" + ctrlCKey) }, exitInterrupted},
		{"SIGINT", func(s *screen) { s.kill(syscall.SIGINT) }, exitInterrupted},
		{"SIGTERM", func(s *screen) { s.kill(syscall.SIGTERM) }, exitInterrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startScreen(t, nil, "play", url)
			before := s.settings()
			s.expect(prompt)
			tt.leave(s)
			s.ends(tt.code)
			if after := s.settings(); *after != *before {
				t.Errorf("the terminal's settings were %+v and are %+v", before, after)
			}
		})
	}
}

func (s *screen) kill(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) settings() *term.State {
	s.t.Helper()
	state, err := term.GetState(int(s.term.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

func TestNoColourOnTerminal(t *testing.T) {
	leak.Check(t)
	url, _ := startEcho(t, 4)
	for _, tt := range []struct {
		name      string
		env, args []string
	}{
		{"NO_COLOR", []string{"NO_COLOR=1"}, nil},
		{"TERM=dumb", []string{"TERM=dumb"}, nil},
		{"--no-color", nil, []string{"--no-color"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startScreen(t, tt.env, append([]string{"play", url}, tt.args...)...)
			shown := s.expect("oenv> ")
			s.send("{}\r")
			shown += s.expect("message: Field required (missing)")
			shown += s.expect("oenv> ")
			s.send(ctrlDKey)
			shown += s.ends(exitOK)
			shown += startScreen(t, tt.env, append([]string{"inspect", url}, tt.args...)...).ends(exitOK)
			if found := colour.FindString(shown); found != "" {
				t.Errorf("colour %q in %q", found, shown)
			}
		})
	}
}

func TestPlayJSONOnTerminal(t *testing.T) {
	leak.Check(t)
	url, _ := startEcho(t, 4)
	s := startScreen(t, nil, "play", "--json", url)
	s.send("reset\n")
	shown := s.expect(`"metadata":null}`)
	s.send(ctrlDKey)
	shown += s.ends(exitOK)
	if strings.Contains(shown, "oenv>") || colour.MatchString(shown) {
		t.Errorf("a prompt or a colour in %q", shown)
	}
}

// A terminal of 80 columns: the tables fit, headings are bold.
func TestInspectOnTerminal(t *testing.T) {
	leak.Check(t)
	url, _ := startEcho(t, 4)
	shown := startScreen(t, nil, "inspect", url).ends(exitOK)
	if !strings.Contains(shown, "\x1b[1maction Action\x1b[0m") {
		t.Errorf("no bold heading in %q", shown)
	}
	for line := range strings.Lines(colour.ReplaceAllString(shown, "")) {
		if len(strings.TrimRight(line, "\r\n")) > 80 {
			t.Errorf("line of more than 80 columns: %q", line)
		}
	}
}

func TestDemoOnTerminal(t *testing.T) {
	leak.Check(t)
	s := startScreen(t, nil, "demo", "--sessions", "3", "--steps", "5")
	s.expect("\rblocking calls: ")
	s.expect("/1 episodes, ")
	s.expect("\r\x1b[K") // wiped
	s.expect("\rfutures, concurrent: ")
	s.expect("/3 episodes, ")
	s.expect("\r\x1b[K")
	s.expect("EPISODES")
	s.ends(exitOK)
}

func TestDemoInterrupted(t *testing.T) {
	leak.Check(t)
	s := startScreen(t, nil, "demo", "--steps", "1000000000")
	s.expect("\rblocking calls: ")
	s.send(ctrlCKey)
	if shown := s.ends(exitInterrupted); !strings.HasSuffix(shown, "\r\x1b[Koenv: interrupted\r\n") {
		t.Errorf("it wrote %q", shown)
	}
}
