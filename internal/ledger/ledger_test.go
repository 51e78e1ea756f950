package ledger_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/ledger"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/openenvtest"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// kinds says how each kind answers three moves with a bad action among them.
var kinds = []struct {
	kind    ledger.Kind
	rejects bool
	steps   []int
	count   string // in the raw state; empty: it has none
}{
	{ledger.Counts, false, []int{10, 11, 12, 13}, "4"},
	{ledger.Rejects, true, []int{10, 12, 13}, "3"},
	{ledger.Two, false, []int{10, 11, 12, 13}, "8"},
	{ledger.NoCounts, false, []int{10, 11, 12, 13}, ""},
}

func TestKindsInGo(t *testing.T) {
	for _, tt := range kinds {
		t.Run(string(tt.kind), func(t *testing.T) {
			leak.Check(t)
			srv, err := ledger.New(tt.kind, envserver.WithMaxSessions(2))
			if err != nil {
				t.Fatal(err)
			}
			s := openenvtest.ServeLoopback(t, srv)
			play(t, s.URL(), s.HTTPClient(), tt.rejects, tt.steps, tt.count)
			if got := srv.Ledger.Episodes()["e-1"].Steps; !slices.Equal(got, tt.steps) {
				t.Errorf("the ledger in the process has %v, want %v", got, tt.steps)
			}
		})
	}
}

func TestKindsInPython(t *testing.T) {
	for _, tt := range kinds {
		t.Run(string(tt.kind), func(t *testing.T) {
			leak.Check(t)
			peer := peerproc.Start(t, "--env", string(tt.kind), "--max-sessions", "2")
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			play(t, peer.URL(), &http.Client{Transport: transport}, tt.rejects, tt.steps, tt.count)
		})
	}
}

// state is any kind's, as it was sent.
type state struct {
	EpisodeID string          `json:"episode_id"`
	StepCount json.RawMessage `json:"step_count"`
}

// play runs one episode and compares what the client is told with what happened.
func play(t *testing.T, url string, web *http.Client, rejects bool, steps []int, count string) {
	t.Helper()
	spec := openenv.Spec[ledger.Action, ledger.Observation, state]{Name: ledger.Spec.Name}
	env, err := openenv.New(spec, url, openenv.WithHTTPClient(web))
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	if res, err := env.Reset(t.Context(), openenv.EpisodeID("e-1")); err != nil || res.Observation.ID != -1 {
		t.Fatalf("Reset = %+v, %v", res, err)
	}
	var told []int
	for i, op := range []string{ledger.Move, ledger.Bad, ledger.Move, ledger.Move} {
		res, err := env.Step(t.Context(), ledger.Action{ID: 10 + i, Op: op})
		if rejects && op == ledger.Bad {
			if serr, ok := errors.AsType[*openenv.ServerError](err); !ok || !strings.Contains(serr.Message, "action 11 is rejected") {
				t.Errorf("a bad action: %v, want a rejection that names it", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, res.Observation.ID)
		if res.Observation.Total != len(told) {
			t.Errorf("total %d, want %d", res.Observation.Total, len(told))
		}
	}
	if !slices.Equal(told, steps) {
		t.Errorf("the client was told of %v, want %v", told, steps)
	}
	episodes, err := ledger.Fetch(t.Context(), web, url)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(maps.Keys(episodes)); !slices.Equal(got, []string{"e-1"}) {
		t.Errorf("episodes %v, want e-1 alone", got)
	}
	if e := episodes["e-1"]; e.Resets != 1 || !slices.Equal(e.Steps, steps) {
		t.Errorf("ledger %+v, want one reset and %v", e, steps)
	}
	got, err := env.State(t.Context())
	if err != nil || got.EpisodeID != "e-1" || string(got.StepCount) != count {
		t.Errorf("state %+v, %v, want e-1 and the step_count %q", got, err, count)
	}
}

func TestNewRefusesKind(t *testing.T) {
	if _, err := ledger.New("ledger-three"); err == nil || !strings.Contains(err.Error(), "ledger-three") {
		t.Errorf("error %v, want one that names the kind", err)
	}
}

func TestFetchFails(t *testing.T) {
	leak.Check(t)
	s := openenvtest.ServeLoopback(t, http.NotFoundHandler())
	if _, err := ledger.Fetch(t.Context(), s.HTTPClient(), s.URL()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v, want one with the status", err)
	}
}
