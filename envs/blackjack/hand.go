package blackjack

import "math/rand/v2"

const (
	ace    = 1
	ten    = 10
	ranks  = 13
	target = 21
)

// draw is a card: 1 is an ace, 10 a ten or one of the three face cards.
func draw(rng *rand.Rand) int { return min(1+rng.IntN(ranks), ten) }

// hand is the cards of one side.
type hand struct {
	cards int
	low   int // the sum with every ace as one
	aces  int
}

func (h *hand) take(card int) {
	h.cards++
	h.low += card
	if card == ace {
		h.aces++
	}
}

// sum counts one ace as eleven where it can; two would be too much.
func (h *hand) sum() (sum int, usableAce bool) {
	if h.aces > 0 && h.low+ten <= target {
		return h.low + ten, true
	}
	return h.low, false
}

func (h *hand) bust() bool { return h.low > target }

// score is what is compared: the sum, or nothing for a hand that is bust.
func (h *hand) score() int {
	if h.bust() {
		return 0
	}
	sum, _ := h.sum()
	return sum
}

// natural reports an ace and a ten as first cards.
func (h *hand) natural() bool {
	sum, _ := h.sum()
	return h.cards == 2 && sum == target
}
