package envserver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// What is kept is always the newest replies that fit, each as it was, within the limit.
func TestKeptReplies(t *testing.T) {
	for _, limit := range []int{0, perReply, 100, 1000, 4096, 1 << 16} {
		t.Run(fmt.Sprint(limit, " bytes"), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(limit), 1))
			r := replies{limit: limit}
			type reply struct {
				id   uint64
				text []byte
			}
			var sent []reply // those that are not too large
			for id := uint64(1); id < 3000; id += 1 + random.Uint64N(3) {
				size := random.IntN(1 + random.IntN(1+limit/2))
				if random.IntN(50) == 0 {
					size = limit + 1 - perReply + random.IntN(10)
				}
				text := bytes.Repeat([]byte{byte(id)}, max(size, 1))
				r.keep(id, text)
				if len(text)+perReply <= limit {
					sent = append(sent, reply{id, text})
				}
				if len(r.ring) > limit || len(r.kept) > 2*(limit/perReply)+2 {
					t.Fatalf("%d bytes and %d entries are in memory", len(r.ring), len(r.kept))
				}
				used := 0
				for i, one := range slices.Backward(sent) {
					used += len(one.text) + perReply
					var got bytes.Buffer
					found := r.find(one.id, &got)
					if found != (used <= limit) || found && !bytes.Equal(got.Bytes(), one.text) {
						t.Fatalf("request %d after %d: found %v, %d bytes of %d", one.id, id, found, got.Len(), len(one.text))
					}
					if !found {
						sent = sent[i+1:] // gone for good
						break
					}
				}
			}
		})
	}
}

// A session in use keeps its replies without allocating.
func TestKeepingRepliesAllocatesNothing(t *testing.T) {
	r := replies{limit: 10_000}
	frame, id := make([]byte, 300), uint64(0)
	keep := func() {
		id++
		r.keep(id, frame)
	}
	for range 1000 {
		keep()
	}
	if n := testing.AllocsPerRun(1000, keep); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Spans tell each number that was begun from each that was not, unless it is too old.
func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		name string
		gap  uint64 // at most, between two numbers
	}{{"no gaps", 1}, {"some gaps", 2}, {"many gaps", 10}} {
		t.Run(tt.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(tt.gap, 1))
			var s spans
			begun := map[uint64]bool{}
			id := uint64(0)
			for range 5000 {
				id += 1 + random.Uint64N(tt.gap)
				s.add(id)
				begun[id] = true
				if s.greatest() != id || len(s.runs) > maxSpans {
					t.Fatalf("greatest is %d after %d; %d runs", s.greatest(), id, len(s.runs))
				}
			}
			for n := s.floor + 1; n <= id+10; n++ {
				if s.has(n) != begun[n] {
					t.Fatalf("number %d: %v", n, s.has(n))
				}
			}
			if tt.gap < 2 && (s.floor != 0 || len(s.runs) != 1) {
				t.Errorf("numbers up to %d are forgotten, in %d runs", s.floor, len(s.runs))
			}
			if s.floor > 0 && s.has(s.floor) {
				t.Errorf("number %d is known although it is forgotten", s.floor)
			}
		})
	}
}
