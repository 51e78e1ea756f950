package rollout_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/relay"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/policy"
	"github.com/openenv-go/openenv/rollout/record"
)

// Where requests are numbered, a network that breaks costs no attempt, and the records
// are those of one that does not.
func TestBadNetworkCostsNoAttempt(t *testing.T) {
	leak.Check(t)
	m := fleetMember(t, 8)
	network := func(plan relay.Plan) *relay.Relay {
		r, err := relay.New(context.Background(), strings.TrimPrefix(m.url(), "http://"), relay.Sockets{Plan: plan})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	bad := network(relay.Random{Seed: 3, Min: 500, Max: 4000, Kinds: []relay.Kind{relay.Cut, relay.Abort, relay.Truncate}})
	over := func(url string, fragile bool) ([]string, int) {
		cfg := rollout.Config{
			Episodes: 60, Sessions: 6, Seed: 9, Limits: record.Limits{Steps: 10}, Out: out(t), Fragile: fragile, MaxAttempts: 1000,
			Options: []openenv.Option{openenv.WithResume(openenv.Resume{Backoff: time.Millisecond})},
		}
		if fragile {
			cfg.Options = nil
		}
		summary := play(t, rollout.URLs(url), policy.Random(), cfg)
		if summary.Returns.Count != cfg.Episodes {
			t.Fatalf("%+v", summary)
		}
		return apartFromAttempts(t, cfg.Out), summary.LostAttempts
	}
	calm, _ := over(m.url(), false)
	survived, lost := over("http://"+bad.Addr(), false)
	if n := bad.Count(); n < 20 || lost > 0 {
		t.Errorf("%d attempts were lost to %d breaks", lost, n)
	}
	gentler := network(relay.Random{Seed: 3, Min: 10_000, Max: 30_000, Kinds: []relay.Kind{relay.Cut}})
	fragile, lost := over("http://"+gentler.Addr(), true)
	if lost == 0 {
		t.Error("no attempt was lost without resuming: the network is not bad enough")
	}
	if !slices.Equal(calm, survived) || !slices.Equal(calm, fragile) {
		t.Error("the records differ from those of a network that holds")
	}
}
