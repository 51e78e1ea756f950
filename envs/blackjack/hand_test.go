package blackjack

import (
	"math"
	"math/rand/v2"
	"testing"
)

func deal(cards ...int) hand {
	var h hand
	for _, c := range cards {
		h.take(c)
	}
	return h
}

func TestHands(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cards   []int
		sum     int
		usable  bool
		score   int
		natural bool
	}{
		{"hard", []int{10, 7}, 17, false, 17, false},
		{"soft", []int{1, 6}, 17, true, 17, false},
		{"natural", []int{10, 1}, 21, true, 21, true},
		{"21 of three", []int{7, 7, 7}, 21, false, 21, false},
		{"soft 21 of three", []int{1, 5, 5}, 21, true, 21, false},
		{"two aces", []int{1, 1}, 12, true, 12, false},
		{"an ace that became one", []int{1, 6, 9}, 16, false, 16, false},
		{"bust", []int{10, 6, 6}, 22, false, 0, false},
		{"bust with an ace", []int{10, 10, 1, 1}, 22, false, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := deal(tt.cards...)
			if sum, usable := h.sum(); sum != tt.sum || usable != tt.usable {
				t.Errorf("sum %d, usable ace %v", sum, usable)
			}
			if h.score() != tt.score || h.natural() != tt.natural || h.bust() != (tt.score == 0) {
				t.Errorf("score %d, natural %v, bust %v", h.score(), h.natural(), h.bust())
			}
		})
	}
}

func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		name           string
		player, dealer hand
		natural        bool
		want           float64
	}{
		{"win", deal(10, 9), deal(10, 8), false, 1},
		{"loss", deal(10, 7), deal(10, 8), false, -1},
		{"draw", deal(10, 8), deal(9, 9), false, 0},
		{"dealer bust", deal(2, 2), deal(10, 6, 6), false, 1},
		{"natural that pays as any win", deal(1, 10), deal(10, 8), false, 1},
		{"natural that pays more", deal(1, 10), deal(10, 8), true, 1.5},
		{"natural against 21 of three", deal(1, 10), deal(7, 7, 7), true, 0},
		{"natural against natural", deal(1, 10), deal(10, 1), true, 0},
		{"21 of three is no natural", deal(7, 7, 7), deal(10, 8), true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := settle(tt.player, tt.dealer, tt.natural); got != tt.want {
				t.Errorf("settle = %v, want %v", got, tt.want)
			}
		})
	}
}

// Four of thirteen ranks count ten, the others come once each.
func TestDeck(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const cards = 130_000
	var counts [ten + 1]int
	for range cards {
		counts[draw(rng)]++
	}
	for card := ace; card <= ten; card++ {
		want := cards / ranks
		if card == ten {
			want *= 4
		}
		if math.Abs(float64(counts[card]-want)) > 0.05*float64(want) {
			t.Errorf("card %d came %d times of about %d", card, counts[card], want)
		}
	}
}
