package gridworld

import (
	"math/rand/v2"
	"testing"
)

func TestEveryGridHasAWay(t *testing.T) {
	for _, size := range []struct{ width, height int }{{2, 2}, {2, 9}, {9, 2}, {5, 5}, {12, 7}, {largest, largest}} {
		for seed := range uint64(100) {
			g := drawGrid(rand.New(rand.NewPCG(seed, 0)), size.width, size.height)
			if g.start == g.goal || g.at(g.start) != cellFree || g.at(g.goal) != cellGoal {
				t.Fatalf("%v, seed %d: start %v, goal %v\n%q", size, seed, g.start, g.goal, g.draw(g.start))
			}
			if d := g.distance(); d == 0 || d >= size.width*size.height {
				t.Fatalf("%v, seed %d: %d steps to the goal\n%q", size, seed, d, g.draw(g.start))
			}
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		name string
		rows []string // A is the start
		want int
	}{
		{"beside", []string{"AG"}, 1},
		{"around a wall", []string{"A#G", "..."}, 4},
		{"around a pit", []string{"AOG", "..."}, 4},
		{"shut in", []string{"A#G", ".O."}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := parseGrid(tt.rows...)
			if got := g.distance(); got != tt.want {
				t.Errorf("distance %d, want %d", got, tt.want)
			}
		})
	}
}

func TestMove(t *testing.T) {
	g := parseGrid(".#G", ".A.", "...")
	for _, tt := range []struct {
		from      Position
		direction string
		want      Position
		moved     bool
	}{
		{g.start, "up", g.start, false}, // a wall
		{g.start, "down", Position{2, 1}, true},
		{g.start, "left", Position{1, 0}, true},
		{g.start, "right", Position{1, 2}, true},
		{Position{0, 0}, "up", Position{0, 0}, false},
		{Position{0, 0}, "left", Position{0, 0}, false},
		{Position{2, 2}, "down", Position{2, 2}, false},
		{Position{2, 2}, "right", Position{2, 2}, false},
	} {
		if got, moved := g.move(tt.from, tt.direction); got != tt.want || moved != tt.moved {
			t.Errorf("from %v %s: %v, %v", tt.from, tt.direction, got, moved)
		}
	}
}

// parseGrid reads a map.
func parseGrid(rows ...string) *grid {
	g := &grid{width: len(rows[0]), height: len(rows)}
	for r, row := range rows {
		for c, mark := range []byte(row) {
			switch mark {
			case agentMark:
				g.start = Position{r, c}
				mark = byte(cellFree)
			case byte(cellGoal):
				g.goal = Position{r, c}
			}
			g.cells = append(g.cells, cell(mark))
		}
	}
	return g
}

// Onto returns env with a grid of the test's choice.
func (e *Env) Onto(rows ...string) *Env {
	e.grid = parseGrid(rows...)
	e.at = e.grid.start
	return e
}
