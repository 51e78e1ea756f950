package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/ledger"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/internal/relay"
	"github.com/openenv-go/openenv/openenvtest"
)

const (
	survivors = 250 // episodes of each kind of environment: 1,000 on each server
	wounds    = 125 // faults that they meet at least: 500 on each server
	moves     = 12  // steps of an episode
	players   = 8   // at once
)

// Episodes on a network that breaks at random points, in requests and in replies too:
// all of them end, and what the client was told is what the environment did.
func TestEpisodesSurviveTheNetwork(t *testing.T) {
	leak.Check(t)
	for _, kind := range ledger.Kinds() {
		t.Run("Python/"+string(kind), func(t *testing.T) {
			peer := peerproc.Start(t, "--env", string(kind), "--max-sessions", "64", "--ping-interval", "1", "--ping-timeout", "1")
			surviveOn(t, survival{kind: kind, url: peer.URL()})
		})
		t.Run("Go/"+string(kind), func(t *testing.T) {
			srv, err := ledger.New(kind, envserver.WithMaxSessions(64))
			if err != nil {
				t.Fatal(err)
			}
			surviveOn(t, survival{kind: kind, url: openenvtest.ServeLoopback(t, srv).URL(), exact: true})
		})
	}
}

// survival is one server under a bad network.
type survival struct {
	kind  ledger.Kind
	url   string
	exact bool // requests are numbered: nothing is lost and nothing in doubt
}

// told is what the client learnt about one episode.
type told struct {
	resets                    int
	done, refused, lost, open []int // ids of steps: answered, rejected, applied without a reply, in doubt
}

func surviveOn(t *testing.T, s survival) {
	t.Helper()
	bad := startRelay(t, s.url, relay.Random{
		Seed: 7, Min: 1000, Max: 5000, For: 20 * time.Millisecond,
		Kinds: []relay.Kind{relay.Cut, relay.Truncate, relay.Abort, relay.HalfClose, relay.Truncate, relay.Delay, relay.Truncate, relay.Blackhole},
	})
	var (
		mu   sync.Mutex
		all  = map[string]*told{}
		work = make(chan string)
		wg   sync.WaitGroup
	)
	for range players {
		wg.Go(func() {
			c := survivor(t, bad)
			for id := range work {
				got, err := playThrough(t.Context(), c, s.kind, id)
				if err != nil {
					t.Errorf("episode %s: %v", id, err)
				}
				mu.Lock()
				all[id] = got
				mu.Unlock()
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	for n := range survivors {
		work <- fmt.Sprintf("e-%d", n)
	}
	close(work)
	wg.Wait()
	broken := bad.Count(relay.Cut, relay.Truncate, relay.Abort, relay.HalfClose, relay.Blackhole)
	if broken < wounds {
		t.Errorf("the network broke %d times, want %d at least", broken, wounds)
	}
	entries, err := ledger.Fetch(t.Context(), http.DefaultClient, s.url)
	if err != nil {
		t.Fatal(err)
	}
	s.compare(t, all, entries, broken)
}

func startRelay(t *testing.T, url string, plan relay.Plan) *relay.Relay {
	t.Helper()
	r, err := relay.New(context.Background(), strings.TrimPrefix(url, "http://"), relay.Sockets{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

type ledgerClient = openenv.Client[ledger.Action, ledger.Observation, openenv.State]

func survivor(t *testing.T, bad *relay.Relay, opts ...openenv.Option) *ledgerClient {
	opts = append([]openenv.Option{
		openenv.WithResume(openenv.Resume{Backoff: 10 * time.Millisecond}),
		openenv.WithPingInterval(time.Second), openenv.WithPingTimeout(time.Second),
	}, opts...)
	c, err := openenv.New(ledger.Spec, "http://"+bad.Addr(), opts...)
	if err != nil {
		t.Error(err)
	}
	return c
}

// playThrough plays one episode to its end, whatever happens to the network.
func playThrough(ctx context.Context, c *ledgerClient, kind ledger.Kind, id string) (*told, error) {
	got := new(told)
	for began := false; !began; {
		_, err := c.Reset(ctx, openenv.EpisodeID(id))
		_, doubtful := errors.AsType[*openenv.StepInDoubtError](err)
		_, applied := errors.AsType[*openenv.ReplyLostError](err)
		switch {
		case err == nil, applied:
			began = true
			got.resets++
		case doubtful:
			got.resets++
		default:
			return got, fmt.Errorf("reset: %w", err)
		}
	}
	for n := range moves {
		op := ledger.Move
		if n%3 == 2 {
			op = ledger.Bad
		}
		res, err := c.Step(ctx, ledger.Action{ID: n, Op: op})
		_, doubtful := errors.AsType[*openenv.StepInDoubtError](err)
		_, applied := errors.AsType[*openenv.ReplyLostError](err)
		failed, refused := errors.AsType[*openenv.ServerError](err)
		switch {
		case err == nil && res.Observation.ID != n:
			return got, fmt.Errorf("step %d was answered with the reply to step %d", n, res.Observation.ID)
		case err == nil:
			got.done = append(got.done, n)
		case applied:
			got.lost = append(got.lost, n)
		case doubtful:
			got.open = append(got.open, n)
		case refused && failed.Code == openenv.CodeExecution && kind == ledger.Rejects && op == ledger.Bad:
			got.refused = append(got.refused, n)
		default:
			return got, fmt.Errorf("step %d: %w", n, err)
		}
	}
	return got, nil
}

// compare holds what the client was told against what the environment did.
func (s survival) compare(t *testing.T, all map[string]*told, entries map[string]ledger.Episode, broken int) {
	t.Helper()
	var lost, open, resets int
	for id, told := range all {
		did := entries[id].Steps
		if !slices.IsSorted(did) || len(slices.Compact(slices.Clone(did))) != len(did) {
			t.Errorf("episode %s: applied %v: out of order, or twice", id, did)
		}
		for _, n := range slices.Concat(told.done, told.lost) {
			if !slices.Contains(did, n) {
				t.Errorf("episode %s: step %d was reported as applied, and was not: %v", id, n, did)
			}
		}
		for _, n := range told.refused {
			if slices.Contains(did, n) {
				t.Errorf("episode %s: step %d was reported as rejected, and was applied", id, n)
			}
		}
		for _, n := range did {
			if !slices.Contains(told.done, n) && !slices.Contains(told.lost, n) && !slices.Contains(told.open, n) {
				t.Errorf("episode %s: step %d was applied, and the client was not told", id, n)
			}
		}
		if got := entries[id].Resets; got > told.resets || got == 0 || s.exact && got != 1 {
			t.Errorf("episode %s: reset %d times, %d were asked for", id, got, told.resets)
		}
		lost, open, resets = lost+len(told.lost), open+len(told.open), resets+told.resets-1
	}
	if s.exact && lost+open+resets > 0 {
		t.Errorf("%d replies lost, %d steps and %d resets in doubt on a server that numbers requests", lost, open, resets)
	}
	t.Logf("%d breaks: %d replies lost, %d steps and %d resets in doubt", broken, lost, open, resets)
}
