package gridworld

import "math/rand/v2"

type cell byte

const (
	cellFree cell = '.'
	cellWall cell = '#'
	cellPit  cell = 'O'
	cellGoal cell = 'G'
)

// agentMark hides the cell below it; the observation names that.
const agentMark = 'A'

func (c cell) String() string {
	switch c {
	case cellGoal:
		return "goal"
	case cellPit:
		return "pit"
	case cellWall:
		return "wall"
	default:
		return "free"
	}
}

var moves = []string{"up", "down", "left", "right"}

type grid struct {
	width, height int
	cells         []cell // row by row
	start, goal   Position
}

// Shares of walls and pits in a first drawing, and how many drawings are tried. Each
// one that has no way thins them out, and the last has none at all: drawing ends.
const (
	wallShare = 0.2
	pitShare  = 0.1
	drawings  = 10
)

// drawGrid draws until there is a way from start to goal.
func drawGrid(rng *rand.Rand, width, height int) *grid {
	g := &grid{width: width, height: height, cells: make([]cell, width*height)}
	for n := range drawings {
		thinned := 1 - float64(n)/(drawings-1)
		start := rng.IntN(len(g.cells))
		goal := (start + 1 + rng.IntN(len(g.cells)-1)) % len(g.cells) // any other cell
		for i := range g.cells {
			switch chance := rng.Float64(); {
			case i == start:
				g.cells[i] = cellFree
			case i == goal:
				g.cells[i] = cellGoal
			case chance < wallShare*thinned:
				g.cells[i] = cellWall
			case chance < (wallShare+pitShare)*thinned:
				g.cells[i] = cellPit
			default:
				g.cells[i] = cellFree
			}
		}
		g.start, g.goal = g.position(start), g.position(goal)
		if g.distance() > 0 {
			break
		}
	}
	return g
}

func (g *grid) position(i int) Position { return Position{i / g.width, i % g.width} }

func (g *grid) index(p Position) int { return p.Row*g.width + p.Column }

func (g *grid) at(p Position) cell { return g.cells[g.index(p)] }

// move returns where a move leads, and whether it leads anywhere.
func (g *grid) move(from Position, direction string) (to Position, moved bool) {
	to = from
	switch direction {
	case "up":
		to.Row--
	case "down":
		to.Row++
	case "left":
		to.Column--
	case "right":
		to.Column++
	}
	if to.Row < 0 || to.Row >= g.height || to.Column < 0 || to.Column >= g.width || g.at(to) == cellWall {
		return from, false
	}
	return to, true
}

// distance is the length of the shortest way from start to goal, 0 when there is none:
// a search in widening rings that enters no pit.
func (g *grid) distance() int {
	seen := make([]bool, len(g.cells))
	seen[g.index(g.start)] = true
	ring := []Position{g.start}
	for steps := 1; len(ring) > 0; steps++ {
		var next []Position
		for _, from := range ring {
			for _, direction := range moves {
				to, moved := g.move(from, direction)
				if !moved || seen[g.index(to)] || g.at(to) == cellPit {
					continue
				}
				if to == g.goal {
					return steps
				}
				seen[g.index(to)] = true
				next = append(next, to)
			}
		}
		ring = next
	}
	return 0
}

// draw is the map with the agent on it.
func (g *grid) draw(agent Position) []string {
	rows := make([]string, g.height)
	line := make([]byte, g.width)
	for r := range rows {
		for c := range line {
			line[c] = byte(g.cells[r*g.width+c])
		}
		if r == agent.Row {
			line[agent.Column] = agentMark
		}
		rows[r] = string(line)
	}
	return rows
}
