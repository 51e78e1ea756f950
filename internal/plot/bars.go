package plot

import (
	"fmt"
	"io"
)

// Bar is one value with its name and, when High is above Low, its spread.
type Bar struct {
	Name      string
	Value     float64
	Low, High float64
}

// Bars is a chart of values beside their names, each with its number.
type Bars struct {
	Title string
	Value Axis
	Bars  []Bar
}

// Write writes the SVG document.
func (c Bars) Write(w io.Writer) error {
	var values []float64
	for _, b := range c.Bars {
		values = append(values, b.Value, b.High)
	}
	const row, names = 26, 260
	end := float64(top + row*len(c.Bars))
	d := newDrawing(c.Title, int(end)+bottom)
	x := newScale(c.Value, values, names, width-70)
	for _, v := range x.ticks() {
		d.line(x.at(v), top, x.at(v), end, "#ddd")
		d.text(x.at(v), end+18, "middle", number(v))
	}
	d.text((names+width-70)/2, end+38, "middle", c.Value.Label)
	for i, b := range c.Bars {
		y := float64(top + row*i)
		d.text(names-8, y+17, "end", b.Name)
		if !x.shows(b.Value) {
			continue
		}
		d.printf(`<rect x="%d" y="%.1f" width="%.1f" height="16" fill="%s"/>`+"\n", names, y+5, max(1, x.at(b.Value)-names), colour(0))
		after := x.at(b.Value)
		if b.High > b.Low && x.shows(b.Low) {
			d.line(x.at(b.Low), y+13, x.at(b.High), y+13, "#000")
			after = max(after, x.at(b.High))
		}
		d.text(after+5, y+17, "start", fmt.Sprintf("%.4g", b.Value))
	}
	return d.finish(w)
}
