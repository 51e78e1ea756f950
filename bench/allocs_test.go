package main

import "testing"

// Allocations are exact, unlike times, so they are the part of the benchmark that is
// held in every run of the tests: make test runs this once without the race detector.
func TestAllocationsOfAStepOnTheClient(t *testing.T) {
	allocs, err := measureAllocs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		got   float64
		limit float64
	}{
		{"typed", allocs.Typed, 8},
		{"awaited", allocs.Await, 12},
		{"raw map", allocs.Raw, 19},
	} {
		limit := tt.limit
		if poolsForget {
			limit *= 2
		}
		if tt.got > limit+0.1 { // the runtime's own
			t.Errorf("%s step: %.1f allocations, want at most %.0f", tt.name, tt.got, limit)
		}
	}
}
