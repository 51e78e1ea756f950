package cli

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// table prints rows under a header, in columns that are as wide as they need to be
// up to a limit. What is longer goes on in the next line of its column.
type table struct {
	header []string
	limits []int // widest a column may be; 0 is what is left of the line
	rows   [][]string
}

const (
	tableIndent = "  "
	tableGap    = "  "
	minColumn   = 24 // of the column that gets the rest of the line
)

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table for lines of width columns.
func (t *table) print(w *bytes.Buffer, width int, head func(string) string) {
	widths := t.widths(width)
	printRow(w, t.header, widths, head)
	for _, row := range t.rows {
		printRow(w, row, widths, func(s string) string { return s })
	}
}

func (t *table) widths(width int) []int {
	widths := make([]int, len(t.header))
	left, rest := width-len(tableIndent), -1
	for i, title := range t.header {
		widths[i] = utf8.RuneCountInString(title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		if t.limits[i] == 0 {
			rest = i
			continue
		}
		widths[i] = min(widths[i], t.limits[i])
		left -= widths[i] + len(tableGap)
	}
	if rest >= 0 {
		widths[rest] = min(widths[rest], max(left, minColumn))
	}
	return widths
}

func printRow(w *bytes.Buffer, cells []string, widths []int, paint func(string) string) {
	columns := make([][]string, len(cells))
	height := 0
	for i, cell := range cells {
		columns[i] = wrap(cell, widths[i])
		height = max(height, len(columns[i]))
	}
	for line := range height {
		var b strings.Builder
		for i, column := range columns {
			text := ""
			if line < len(column) {
				text = column[line]
			}
			b.WriteString(text)
			if i < len(columns)-1 {
				b.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text))) + tableGap)
			}
		}
		fmt.Fprintln(w, tableIndent+paint(strings.TrimRight(b.String(), " ")))
	}
}

// wrap breaks text between words into lines of at most width characters; a word
// that is longer is cut.
func wrap(text string, width int) []string {
	var lines []string
	var line []rune
	flush := func() {
		lines = append(lines, string(line))
		line = line[:0]
	}
	for word := range strings.FieldsSeq(text) {
		runes := []rune(word)
		if len(line) > 0 && len(line)+1+len(runes) > width {
			flush()
		}
		for len(runes) > width && width > 0 {
			lines = append(lines, string(runes[:width]))
			runes = runes[width:]
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		line = append(line, runes...)
	}
	if len(line) > 0 || len(lines) == 0 {
		flush()
	}
	return lines
}

// clip shortens text to what one can take in at a glance, and shows that it did.
func clip(text string) string {
	const enough = 40
	runes := []rune(text)
	if len(runes) <= enough {
		return text
	}
	return string(runes[:enough-1]) + "…"
}
