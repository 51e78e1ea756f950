package plot

import (
	"fmt"
	"io"
	"strings"
)

// Series is a line through points, in the order that they have.
type Series struct {
	Name   string
	Points []Point
}

// Point is a value of each axis.
type Point struct{ X, Y float64 }

// Lines is a chart of series over common axes.
type Lines struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// Write writes the SVG document.
func (c Lines) Write(w io.Writer) error {
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	d := newDrawing(c.Title, height)
	x := newScale(c.X, xs, left, width-right)
	y := newScale(c.Y, ys, height-bottom, top)
	for _, v := range x.ticks() {
		d.line(x.at(v), top, x.at(v), height-bottom, "#ddd")
		d.text(x.at(v), height-bottom+18, "middle", number(v))
	}
	for _, v := range y.ticks() {
		d.line(left, y.at(v), width-right, y.at(v), "#ddd")
		d.text(left-8, y.at(v)+4, "end", number(v))
	}
	d.text((left+width-right)/2, height-12, "middle", c.X.Label)
	d.printf(`<text x="16" y="%d" text-anchor="middle" transform="rotate(-90 16 %[1]d)">%s</text>`+"\n", (top+height-bottom)/2, escape(c.Y.Label))
	for i, s := range c.Series {
		d.series(s, x, y, colour(i))
		d.text(width-right+14, float64(top+8+20*i), "start", s.Name)
		d.line(width-right+2, float64(top+4+20*i), width-right+12, float64(top+4+20*i), colour(i))
	}
	return d.finish(w)
}

func (d *drawing) series(s Series, x, y scale, colour string) {
	var path strings.Builder
	for _, p := range s.Points {
		if !x.shows(p.X) || !y.shows(p.Y) {
			continue
		}
		fmt.Fprintf(&path, " %.1f,%.1f", x.at(p.X), y.at(p.Y))
		d.printf(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(p.X), y.at(p.Y), colour)
	}
	if path.Len() > 0 {
		d.printf(`<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colour, path.String()[1:])
	}
}
