package interop

import (
	"net/http"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/clientsuite"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
)

// The client's suite against the published Python package.
//
// A peer takes seconds to start, so the cases share one for each configuration. The
// clients of the idle gaps are made first and used last, and the gaps pass while the
// suite plays: they are in the baseline of its leak checks, and nobody touches them.
func TestClientOfPythonServer(t *testing.T) {
	leak.Check(t)
	echo := peerproc.Start(t, "--env", "echo", "--max-sessions", "128")
	defaults := beginIdle(t, "45 s, the peer's default keepalive", echo, 45*time.Second)
	small := peerproc.Start(t, "--env", "echo", "--max-sessions", "128",
		"--ws-max-size", "1048576", "--ping-interval", "1", "--ping-timeout", "1")
	quick := beginIdle(t, "4 s, pings every second from both ends", small, 4*time.Second,
		openenv.WithPingInterval(time.Second), openenv.WithPingTimeout(time.Second))
	shared := map[clientsuite.Kind]*peerproc.Peer{
		clientsuite.Echo:    echo,
		clientsuite.Small:   small,
		clientsuite.Solo:    peerproc.Start(t, "--env", "solo", "--max-sessions", "1"),
		clientsuite.Failing: peerproc.Start(t, "--env", "failing"),
	}

	clientsuite.Run(t, clientsuite.Target{
		Start: func(t *testing.T, kind clientsuite.Kind) clientsuite.Server {
			if kind == clientsuite.Mortal {
				peer := peerproc.Start(t, "--env", "echo", "--max-sessions", "16")
				return clientsuite.Server{URL: peer.URL(), Kill: peer.Kill}
			}
			return clientsuite.Server{URL: shared[kind].URL()}
		},
		Large:       50 << 20,
		LargeAction: 8 << 20,
		UnknownPath: http.StatusForbidden, // what uvicorn makes of a socket that no route takes
		NaNIsNull:   true,
		CanKill:     true,
	})

	for _, gap := range []*idleGap{quick, defaults} {
		t.Run("an idle gap of "+gap.name, gap.end)
	}
}

// idleGap is an episode in which nothing happens for a while.
type idleGap struct {
	name   string
	client *clientsuite.Client
	until  time.Time
}

const idleEpisode = "idle"

func beginIdle(t *testing.T, name string, peer *peerproc.Peer, gap time.Duration, opts ...openenv.Option) *idleGap {
	t.Helper()
	c, err := openenv.New(clientsuite.Spec, peer.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if _, err := c.Reset(t.Context(), openenv.EpisodeID(idleEpisode)); err != nil {
		t.Fatalf("Reset: %v", err)
	}
	if _, err := c.Step(t.Context(), clientsuite.Action{Message: "before"}); err != nil {
		t.Fatalf("Step: %v", err)
	}
	return &idleGap{name, c, time.Now().Add(gap)}
}

// end wants the same episode after the gap: a new connection would not have it.
func (g *idleGap) end(t *testing.T) {
	time.Sleep(time.Until(g.until))
	res, err := g.client.Step(t.Context(), clientsuite.Action{Message: "after"})
	if err != nil || res.Observation.Echoed != "after" {
		t.Fatalf("Step = %+v, %v", res, err)
	}
	state, err := g.client.State(t.Context())
	if want := (openenv.State{EpisodeID: idleEpisode, StepCount: 2}); err != nil || state != want {
		t.Errorf("State = %+v, %v, want %+v", state, err, want)
	}
}
