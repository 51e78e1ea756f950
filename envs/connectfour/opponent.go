package connectfour

import (
	"math"
	"math/rand/v2"
)

// How the opponent plays.
const (
	levelGreedy  = "greedy"
	levelRandom  = "random"
	levelMinimax = "minimax"
)

// depth is how many moves minimax looks ahead, its own included.
const depth = 4

// winValue is what a line is worth. All else is worth nothing: positions are compared
// by the lines in sight alone, so that the seed has a choice in most of them.
const winValue = 100

// choose is the opponent's column; there is a legal one. The board is as before.
func choose(level string, b *board, rng *rand.Rand) int {
	candidates := b.legal()
	switch level {
	case levelGreedy:
		if winning := completing(b, candidates, discOpponent); winning != nil {
			candidates = winning
		} else if losing := completing(b, candidates, discAgent); losing != nil {
			candidates = losing
		}
	case levelMinimax:
		candidates = best(b, candidates)
	}
	return candidates[rng.IntN(len(candidates))]
}

// completing are the columns where a disc makes a line of four.
func completing(b *board, candidates []int, d disc) []int {
	var found []int
	for _, c := range candidates {
		b.drop(c, d)
		if b.wins(c) {
			found = append(found, c)
		}
		b.lift(c)
	}
	return found
}

// best are the opponent's columns of the highest value. Each is searched with a full
// window: a narrowed one has bounds instead of values, and ties would be missed.
func best(b *board, candidates []int) []int {
	var found []int
	highest := math.MinInt
	for _, c := range candidates {
		value := -valueAfter(b, c, discOpponent, depth-1, -math.MaxInt, math.MaxInt)
		if value > highest {
			highest, found = value, nil
		}
		if value == highest {
			found = append(found, c)
		}
	}
	return found
}

// valueAfter is the value of the position after a disc in a column, for the side that
// moves next: negamax with alpha-beta bounds. left is how many moves are looked at
// after this one.
func valueAfter(b *board, column int, d disc, left, alpha, beta int) int {
	b.drop(column, d)
	defer b.lift(column)
	if b.wins(column) {
		return -(winValue + left) // a quick win is worth more than a late one
	}
	if left == 0 {
		return 0
	}
	highest := math.MinInt
	for c, height := range b.heights {
		if height == rows {
			continue
		}
		value := -valueAfter(b, c, d.other(), left-1, -beta, -alpha)
		highest = max(highest, value)
		alpha = max(alpha, value)
		if alpha >= beta {
			break
		}
	}
	if highest == math.MinInt {
		return 0 // a full board
	}
	return highest
}
