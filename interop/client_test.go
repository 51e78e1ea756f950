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

	target := clientsuite.Target{
		Large:       50 << 20,
		LargeAction: 8 << 20,
		UnknownPath: http.StatusForbidden, // what uvicorn makes of a socket that no route takes
		NaNIsNull:   true,
		CanKill:     true,
	}
	start := func(opts ...openenv.Option) func(*testing.T, clientsuite.Kind) clientsuite.Server {
		return func(t *testing.T, kind clientsuite.Kind) clientsuite.Server {
			if kind == clientsuite.Mortal {
				peer := peerproc.Start(t, "--env", "echo", "--max-sessions", "16")
				return clientsuite.Server{URL: peer.URL(), Kill: peer.Kill, Options: opts}
			}
			return clientsuite.Server{URL: shared[kind].URL(), Options: opts}
		}
	}
	t.Run("plain", func(t *testing.T) {
		target.Start = start()
		clientsuite.Run(t, target)
	})
	t.Run("resumed", func(t *testing.T) {
		target.Start = start(openenv.WithResume(openenv.Resume{MaxWait: resumeWait}))
		target.Except = resumedOnPython
		target.UnknownPath = http.StatusNotFound // of the request that makes the session
		clientsuite.Run(t, target)
	})

	for _, gap := range []*idleGap{quick, defaults} {
		t.Run("an idle gap of "+gap.name, gap.end)
	}
}

// resumeWait is short, since the suite kills servers that do not come back.
const resumeWait = 5 * time.Second

// resumedOnPython is what is not so, by design, for clients that resume on a server that
// does not number requests.
var resumedOnPython = map[string]string{
	"kill -9 of the server in mid-step":       "callers wait for the server to come back",
	"cancel in mid-step":                      "the session is attached to again",
	"cancel of a future in mid-step":          "the session is attached to again",
	"message timeout":                         "the session is attached to again",
	"an observation above the client's limit": "the step was applied, and the session goes on",
	"an action above the server's limit":      "the step was not applied, and the session goes on",
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
