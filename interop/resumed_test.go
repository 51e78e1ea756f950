package interop

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/internal/clientsuite"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/internal/relay"
)

// On a Python server a caller that leaves, or waits too long, costs the socket. The work
// goes on there to its end, and then the same episode does.
func TestCancelledStepOnAPythonServerResumed(t *testing.T) {
	leak.Check(t)
	peer := peerproc.Start(t, "--env", "echo", "--max-sessions", "8")
	for _, tt := range []struct {
		name  string
		limit time.Duration
		opts  []openenv.Option
		want  error
	}{
		{"cancel", 100 * time.Millisecond, nil, context.DeadlineExceeded},
		{"message timeout", time.Minute, []openenv.Option{openenv.WithMessageTimeout(100 * time.Millisecond)}, openenv.ErrMessageTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := openenv.New(clientsuite.Spec, peer.URL(), append(tt.opts, openenv.WithResume(openenv.Resume{Backoff: 20 * time.Millisecond}))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			if _, err := c.Reset(t.Context(), openenv.EpisodeID(tt.name)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
			defer cancel()
			if _, err := c.Step(ctx, clientsuite.Action{Message: "sleep:0.5"}); !errors.Is(err, tt.want) {
				t.Errorf("Step: %v, want %v", err, tt.want)
			}
			if _, err := c.Step(t.Context(), clientsuite.Action{Message: "hi"}); err != nil {
				t.Fatalf("Step after it: %v", err)
			}
			state, err := c.State(t.Context())
			if want := (openenv.State{EpisodeID: tt.name, StepCount: 2}); err != nil || state != want {
				t.Errorf("State = %+v, %v, want %+v", state, err, want)
			}
		})
	}
}

// Which of the two ways a server has, as the command's inspect shows it.
func TestProbeResumeOnBothServers(t *testing.T) {
	leak.Check(t)
	urls, sessions := echoReplicas(t)
	for url, want := range map[string]openenv.ResumeSupport{
		urls[0]: openenv.ResumeNumbered,
		peerproc.Start(t, "--env", "echo", "--max-sessions", "1").URL(): openenv.ResumeByState,
	} {
		c := echoClient(t, url)
		for range 2 { // the probe leaves nothing behind
			if got, err := openenv.ProbeResume(t.Context(), c); got != want || err != nil {
				t.Errorf("ProbeResume of %s = %s, %v, want %s", url, got, err, want)
			}
		}
	}
	if got := sessions(); got != 0 {
		t.Errorf("%d sessions are left", got)
	}
}

// A server of ours that is started anew on the same address has another identity: the
// client looks for the one that has its session as long as it may, and says so.
func TestServerThatWasStartedAnew(t *testing.T) {
	leak.Check(t)
	urls, _ := echoReplicas(t)
	var anew atomic.Bool
	b := balance(t, func(*balancer, *http.Request) int { return map[bool]int{false: 0, true: 1}[anew.Load()] }, urls...)
	way := startRelay(t, b.url, relay.None{})
	c := echoClient(t, "http://"+way.Addr(), openenv.WithResume(openenv.Resume{Backoff: 10 * time.Millisecond, MaxWait: 500 * time.Millisecond}))
	if _, err := c.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	anew.Store(true)
	way.Abort()
	_, err := c.Step(t.Context(), echo.Action{Message: "hi"})
	_, isLost := errors.AsType[*openenv.SessionLostError](err)
	if _, wrong := errors.AsType[*openenv.WrongReplicaError](err); !isLost || !wrong {
		t.Fatalf("Step: %v, want a loss that names the other server", err)
	}
	if _, err := c.Reset(t.Context()); err != nil {
		t.Errorf("Reset: %v", err)
	}
}
