package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
)

// The places of a chart, in pixels.
const (
	width  = 760
	height = 380
	left   = 70
	right  = 170 // room for the names of series
	top    = 40
	bottom = 50
)

// drawing is a document in the making.
type drawing struct{ b bytes.Buffer }

func newDrawing(title string, height int) *drawing {
	d := new(drawing)
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	d.printf(`<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	d.printf(`<text x="%d" y="22" text-anchor="middle" font-size="15">%s</text>`+"\n", width/2, escape(title))
	return d
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

func (d *drawing) line(x1, y1, x2, y2 float64, colour string) {
	d.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

func (d *drawing) text(x, y float64, anchor, text string) {
	d.printf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, escape(text))
}

func (d *drawing) finish(w io.Writer) error {
	d.b.WriteString("</svg>\n")
	_, err := d.b.WriteTo(w)
	return err
}

func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // to memory
	return b.String()
}

// colour is one that differs from its neighbours, also for those who see few of them.
func colour(i int) string {
	colours := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}
	return colours[i%len(colours)]
}
