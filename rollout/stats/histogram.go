package stats

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bin is a class of a histogram: From included, To not, but in the last.
type Bin struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int     `json:"count"`
}

// Histogram puts values into at most n classes of one width, from the least to the
// greatest. Values that are all the same make one class. n is at least 1.
func Histogram(values []float64, n int) []Bin {
	if len(values) == 0 || n < 1 {
		return nil
	}
	low, high := slices.Min(values), slices.Max(values)
	width := (high - low) / float64(n)
	if !(width > 0) || math.IsInf(width, 0) || low+width == low {
		return []Bin{{low, high, len(values)}}
	}
	bins := make([]Bin, n)
	for i := range bins {
		bins[i].From = low + float64(i)*width
		bins[i].To = low + float64(i+1)*width
	}
	bins[n-1].To = high
	for _, v := range values {
		bins[min(int((v-low)/width), n-1)].Count++
	}
	return bins
}

// eighths are the parts of a cell that a bar can fill.
var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// Bars draws a histogram for lines of width columns, a class a line. The last column
// is the count.
func Bars(bins []Bin, width int) []string {
	most, label, digits := 1, 0, 1
	labels := make([]string, len(bins))
	for i, b := range bins {
		most = max(most, b.Count)
		labels[i] = short(b.From) + " … " + short(b.To)
		label = max(label, len([]rune(labels[i])))
		digits = max(digits, len(strconv.Itoa(b.Count)))
	}
	room := max(width-label-digits-4, 8)
	lines := make([]string, len(bins))
	for i, b := range bins {
		cells := b.Count * room * len(eighths) / most
		if b.Count > 0 {
			cells = max(cells, 1)
		}
		bar := strings.Repeat("█", cells/len(eighths)) + eighths[cells%len(eighths)]
		pad := strings.Repeat(" ", label-len([]rune(labels[i])))
		fill := strings.Repeat(" ", room-len([]rune(bar)))
		lines[i] = fmt.Sprintf("%s%s  %s%s  %*d", pad, labels[i], bar, fill, digits, b.Count)
	}
	return lines
}

// short is a number in few letters.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
