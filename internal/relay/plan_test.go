package relay_test

import (
	"slices"
	"testing"
	"time"

	"github.com/openenv-go/openenv/internal/relay"
)

// faults lists the first n faults that a plan has for a direction.
func faults(p relay.Plan, conn int, d relay.Direction, n int) (list []relay.Fault) {
	from := int64(0)
	for range n {
		f, ok := p.Next(relay.Conn{Number: conn}, d, from)
		if !ok {
			break
		}
		list = append(list, f)
		from = f.Offset + 1
	}
	return list
}

func TestRandomIsSeeded(t *testing.T) {
	plan := func(seed uint64) relay.Plan {
		return relay.Random{Seed: seed, Kinds: []relay.Kind{relay.Cut, relay.Delay, relay.Truncate}, Min: 100, Max: 900, For: time.Second}
	}
	first := faults(plan(1), 3, relay.ToClient, 50)
	if len(first) != 50 || !slices.Equal(first, faults(plan(1), 3, relay.ToClient, 50)) {
		t.Fatalf("the same seed drew other faults, or not 50: %v", first)
	}
	for name, other := range map[string][]relay.Fault{
		"seed":       faults(plan(2), 3, relay.ToClient, 50),
		"connection": faults(plan(1), 4, relay.ToClient, 50),
		"direction":  faults(plan(1), 3, relay.ToServer, 50),
	} {
		if slices.Equal(first, other) {
			t.Errorf("another %s has the same faults", name)
		}
	}
}

func TestRandomKeepsItsBounds(t *testing.T) {
	p := relay.Random{Seed: 7, Kinds: []relay.Kind{relay.Cut, relay.Delay}, Min: 100, Max: 900, For: time.Second, Limit: 2}
	kinds, places := map[relay.Kind]int{}, map[relay.Place]int{}
	last := int64(-1)
	for _, f := range faults(p, 1, relay.ToServer, 300) {
		if gap := f.Offset - last - 1; gap < 100 || gap > 900 {
			t.Errorf("%d bytes between two faults, want 100 to 900", gap)
		}
		if f.For < 0 || f.For > time.Second {
			t.Errorf("a delay of %v, want 1s at most", f.For)
		}
		last = f.Offset
		kinds[f.Kind]++
		places[f.Place]++
	}
	if kinds[relay.Cut] < 100 || kinds[relay.Delay] < 100 {
		t.Errorf("kinds %v, want both about equally often", kinds)
	}
	if places[relay.Before] < 60 || places[relay.Within] < 60 || places[relay.After] < 60 {
		t.Errorf("places %v, want all about equally often", places)
	}
	if got := faults(p, 2, relay.ToServer, 1); got != nil {
		t.Errorf("connection 2 meets %v, want nothing: the limit is 2", got)
	}
}

func TestEvery(t *testing.T) {
	p := relay.Every{Bytes: 10, Kinds: []relay.Kind{relay.Delay, relay.Cut}, Place: relay.After}
	want := []relay.Fault{
		{Kind: relay.Delay, Direction: relay.ToClient, Offset: 10, Place: relay.After},
		{Kind: relay.Cut, Direction: relay.ToClient, Offset: 20, Place: relay.After},
		{Kind: relay.Delay, Direction: relay.ToClient, Offset: 30, Place: relay.After},
	}
	if got := faults(p, 0, relay.ToClient, 3); !slices.Equal(got, want) {
		t.Errorf("faults %v, want %v", got, want)
	}
	for _, empty := range []relay.Every{{Bytes: 10}, {Kinds: []relay.Kind{relay.Cut}}} {
		if got := faults(empty, 0, relay.ToServer, 1); got != nil {
			t.Errorf("%+v has %v, want nothing", empty, got)
		}
	}
}

func TestSocketsReadsTheHead(t *testing.T) {
	p := relay.Sockets{Plan: relay.Every{Bytes: 1, Kinds: []relay.Kind{relay.Cut}}}
	for head, want := range map[string]bool{
		"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n": true,
		"GET /ws HTTP/1.1\r\nupgrade:WebSocket\r\n\r\n":             true,
		"POST /mcp HTTP/1.1\r\nHost: a\r\n\r\nUpgrade":              false,
		"": false,
	} {
		if _, ok := p.Next(relay.Conn{Head: []byte(head)}, relay.ToServer, 0); ok != want {
			t.Errorf("head %q: a fault %v, want %v", head, ok, want)
		}
	}
}
