package main

import "testing"

// Allocations are exact, unlike times, so they are the part of the benchmark that is
// held in every run of the tests.
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
		{"typed", allocs.Typed, 12},
		{"raw map", allocs.Raw, 25},
	} {
		// The race detector's own bookkeeping does not count as allocations.
		if tt.got > tt.limit+0.5 {
			t.Errorf("%s step: %.1f allocations, want at most %.0f", tt.name, tt.got, tt.limit)
		}
	}
}
