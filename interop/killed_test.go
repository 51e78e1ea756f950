package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/openenvtest"
)

// victimVariable makes the test binary a client, to be killed: its value is the server's
// URL and what the client does when it has begun an episode.
const victimVariable = "OPENENV_TEST_VICTIM"

func TestMain(m *testing.M) {
	if order := os.Getenv(victimVariable); order != "" {
		url, act, _ := strings.Cut(order, " ")
		if err := victim(url, act); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type message struct {
	Message string `json:"message"`
}

var napSpec = openenv.Spec[message, message, openenv.State]{Name: "nap"}

// victim plays until it is killed.
func victim(url, act string) error {
	c, err := openenv.New(napSpec, url, openenv.WithResume(openenv.Resume{}))
	if err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := c.Reset(ctx); err != nil {
		return err
	}
	fmt.Println("playing")
	if act == "step" {
		_, err := c.Step(ctx, message{"nap"})
		return fmt.Errorf("step: %w", err)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the end of the test, whatever it does
	return errors.New("nobody killed this process")
}

// murder starts a victim, and kills it with signal 9 when it plays.
func murder(t *testing.T, url, act string, playing func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+url+" "+act, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		playing()
	}
	_ = cmd.Process.Kill() // it may have ended by itself, which the next line shows
	if waitErr := cmd.Wait(); err != nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the client printed %q, %v, and ended by itself: %v", line, err, waitErr)
	}
}

// napEnv sleeps until its ctx ends.
type napEnv struct {
	begun, ended chan<- struct{}
	closed       chan<- struct{}
}

func (e *napEnv) Reset(context.Context, envserver.ResetParams) (openenv.StepResult[message], error) {
	return openenv.StepResult[message]{}, nil
}

func (e *napEnv) Step(ctx context.Context, _ message) (openenv.StepResult[message], error) {
	e.begun <- struct{}{}
	<-ctx.Done()
	e.ended <- struct{}{}
	return openenv.StepResult[message]{}, context.Cause(ctx)
}

func (e *napEnv) State(context.Context) (openenv.State, error) {
	return openenv.State{EpisodeID: "e"}, nil
}

func (e *napEnv) Close() error {
	e.closed <- struct{}{}
	return nil
}

// A client killed with signal 9 cannot say goodbye. Its session lives for the lease, in
// case that it was only the network, and then leaves nothing behind.
func TestKilledClientFreesItsSlotWithinTheLease(t *testing.T) {
	const lease = time.Second
	leak.Check(t)
	for _, act := range []string{"think", "step"} {
		t.Run(act, func(t *testing.T) {
			begun, ended, closed := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
			srv, err := envserver.New(napSpec, func(context.Context) (*napEnv, error) { return &napEnv{begun, ended, closed}, nil },
				envserver.WithLease(lease))
			if err != nil {
				t.Fatal(err)
			}
			url := openenvtest.ServeLoopback(t, srv).URL()
			murder(t, url, act, func() {
				if act == "step" {
					<-begun
				}
			})
			start := time.Now()
			if got := srv.ActiveSessions(); got != 1 {
				t.Errorf("%d sessions right after the kill, want the one that may come back", got)
			}
			<-closed
			if act == "step" {
				select {
				case <-ended:
				default:
					t.Error("the step was not ended before its environment was closed")
				}
			}
			if took := time.Since(start); took < lease/2 || took > lease+5*time.Second {
				t.Errorf("the environment was closed %v after the kill, the lease is %v", took, lease)
			}
			next, err := openenv.New(napSpec, url, openenv.WithConnectRetry(openenv.Retry{Attempts: 100, Base: 10 * time.Millisecond, Max: 50 * time.Millisecond}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := next.Reset(t.Context()); err != nil {
				t.Errorf("the slot is not free: %v", err)
			}
			if err := next.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The Python package has no lease unless its server is given a session timeout: what a
// killed client leaves there stays.
func TestKilledClientKeepsItsSlotOnAPythonServer(t *testing.T) {
	leak.Check(t)
	peer := peerproc.Start(t, "--env", "echo", "--max-sessions", "1", "--ping-interval", "0.2", "--ping-timeout", "0.2")
	murder(t, peer.URL(), "think", func() {})
	time.Sleep(2 * time.Second) // ten times as long as it takes to notice the loss
	c, err := openenv.New(napSpec, peer.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Connect(t.Context()); !errors.Is(err, openenv.ErrCapacity) {
		t.Errorf("Connect: %v; the server has learnt to end sessions, and the documentation is wrong", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
