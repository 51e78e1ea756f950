package connectfour

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// parseBoard reads rows from top to bottom; rows above are free.
func parseBoard(lines ...string) *board {
	b := new(board)
	for _, line := range slices.Backward(lines) {
		for c, mark := range []byte(line) {
			if mark != '.' {
				b.drop(c, disc(strings.IndexByte(".XO", mark)))
			}
		}
	}
	return b
}

func TestWins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lines  []string
		column int // of the last disc
		want   bool
	}{
		{"row", []string{"XXXX..."}, 1, true},
		{"row at the edge", []string{"...OOOO"}, 6, true},
		{"row of three", []string{"XXXOX.."}, 2, false},
		{"column", []string{"X......", "X......", "X......", "X......"}, 0, true},
		{"column of three", []string{"X......", "X......", "X......", "O......"}, 0, false},
		{"rising", []string{"...X...", "..XO...", ".XOO...", "XOOX..."}, 3, true},
		{"falling", []string{"O......", "XO.....", "XXO....", "XXXO..."}, 2, true},
		{"round the edge", []string{"XX...XX"}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseBoard(tt.lines...).wins(tt.column); got != tt.want {
				t.Errorf("wins(%d) = %v", tt.column, got)
			}
		})
	}
}

func TestOpponents(t *testing.T) {
	for _, tt := range []struct {
		name  string
		level string
		lines []string
		want  []int // every column that may be chosen
	}{
		{"random", levelRandom, []string{"OX...XO"}, []int{0, 1, 2, 3, 4, 5, 6}},
		{"greedy wins", levelGreedy, []string{".XXX...", ".OOO..."}, []int{0, 4}},
		{"greedy prefers a win to a block", levelGreedy, []string{"O......", "O......", "O..XXX."}, []int{0}},
		{"greedy blocks", levelGreedy, []string{"O......", "OXXX..."}, []int{4}},
		{"greedy without a threat", levelGreedy, []string{"...X..."}, []int{0, 1, 2, 3, 4, 5, 6}},
		{"minimax wins", levelMinimax, []string{"O......", "O......", "O..XXX."}, []int{0}},
		{"minimax blocks", levelMinimax, []string{"X......", "X.O....", "X.O...."}, []int{0}},
		{"minimax stops an open row of three", levelMinimax, []string{"..XX..O"}, []int{1, 4}},
		{"minimax makes an open row of three", levelMinimax, []string{"..OO..X"}, []int{1, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := parseBoard(tt.lines...)
			before := *b
			chosen := map[int]bool{}
			for seed := range uint64(100) {
				chosen[choose(tt.level, b, rand.New(rand.NewPCG(seed, 0)))] = true
			}
			if *b != before {
				t.Fatalf("the board has changed: %q", b.draw())
			}
			for c := range columns {
				if chosen[c] != slices.Contains(tt.want, c) {
					t.Errorf("column %d chosen: %v, want one of %v", c, chosen[c], tt.want)
				}
			}
		})
	}
}

// Cutting branches must not change a value.
func TestSearchAgreesWithFullSearch(t *testing.T) {
	var full func(b *board, column int, d disc, left int) int
	full = func(b *board, column int, d disc, left int) int {
		b.drop(column, d)
		defer b.lift(column)
		switch {
		case b.wins(column):
			return -(winValue + left)
		case left == 0 || b.full():
			return 0
		}
		highest := -2 * winValue
		for _, c := range b.legal() {
			highest = max(highest, -full(b, c, d.other(), left-1))
		}
		return highest
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := new(board)
		d := discAgent
		for range 36 { // positions late in a game have wins and full columns near
			legal := b.legal()
			b.drop(legal[rng.IntN(len(legal))], d)
			d = d.other()
		}
		for _, c := range b.legal() {
			want := full(b, c, d, depth-1)
			if got := valueAfter(b, c, d, depth-1, -1<<62, 1<<62); got != want {
				t.Fatalf("column %d of %q: %d, want %d", c, b.draw(), got, want)
			}
		}
	}
}
