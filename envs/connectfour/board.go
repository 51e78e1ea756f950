package connectfour

const (
	columns = 7
	rows    = 6
)

// disc is who holds a cell.
type disc byte

const (
	discNone disc = iota
	discAgent
	discOpponent
)

func (d disc) other() disc { return discAgent + discOpponent - d }

// mark is how a disc is drawn.
func (d disc) mark() byte { return ".XO"[d] }

// board is a position: cells[c][r] counts rows from the bottom.
type board struct {
	cells   [columns][rows]disc
	heights [columns]int
}

// drop lets a disc fall into a column that is not full.
func (b *board) drop(column int, d disc) {
	b.cells[column][b.heights[column]] = d
	b.heights[column]++
}

// lift takes back the last disc of a column.
func (b *board) lift(column int) {
	b.heights[column]--
	b.cells[column][b.heights[column]] = discNone
}

func (b *board) legal() []int {
	legal := make([]int, 0, columns)
	for c, height := range b.heights {
		if height < rows {
			legal = append(legal, c)
		}
	}
	return legal
}

func (b *board) full() bool {
	for _, height := range b.heights {
		if height < rows {
			return false
		}
	}
	return true
}

// wins reports whether the topmost disc of a column is in a line of four.
func (b *board) wins(column int) bool {
	row := b.heights[column] - 1
	for _, d := range [...][2]int{{1, 0}, {0, 1}, {1, 1}, {1, -1}} {
		if 1+b.run(column, row, d[0], d[1])+b.run(column, row, -d[0], -d[1]) >= 4 {
			return true
		}
	}
	return false
}

// run counts the discs of the same side that follow in one direction.
func (b *board) run(column, row, dc, dr int) int {
	n := 0
	for c, r := column+dc, row+dr; c >= 0 && c < columns && r >= 0 && r < rows; c, r = c+dc, r+dr {
		if b.cells[c][r] != b.cells[column][row] {
			break
		}
		n++
	}
	return n
}

// draw is the rows from top to bottom.
func (b *board) draw() []string {
	drawn := make([]string, rows)
	for r := range drawn {
		var line [columns]byte
		for c := range line {
			line[c] = b.cells[c][rows-1-r].mark()
		}
		drawn[r] = string(line[:])
	}
	return drawn
}
