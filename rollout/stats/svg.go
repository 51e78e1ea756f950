package stats

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// The picture's measures, in pixels.
const (
	svgWidth, svgHeight = 640, 360
	svgLeft, svgRight   = 56, 16
	svgTop, svgBottom   = 40, 48
)

// SVG draws a histogram as a picture that stands alone.
func SVG(bins []Bin, title string) string {
	var b strings.Builder
	most := 1
	for _, bin := range bins {
		most = max(most, bin.Count)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", svgWidth, svgHeight)
	text(&b, svgLeft, svgTop-16, "start", title)
	plotWidth, plotHeight := float64(svgWidth-svgLeft-svgRight), float64(svgHeight-svgTop-svgBottom)
	for _, part := range []int{0, 1, 2} {
		count := most * part / 2
		y := float64(svgHeight-svgBottom) - plotHeight*float64(count)/float64(most)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1[3]f" stroke="#ddd"/>`+"\n", svgLeft, svgWidth-svgRight, y)
		text(&b, svgLeft-8, y+4, "end", strconv.Itoa(count))
	}
	for i, bin := range bins {
		width := plotWidth / float64(len(bins))
		x, height := svgLeft+float64(i)*width, plotHeight*float64(bin.Count)/float64(most)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#4878a8"><title>%s … %s: %d</title></rect>`+"\n",
			x+1, float64(svgHeight-svgBottom)-height, max(width-2, 1), height, short(bin.From), short(bin.To), bin.Count)
	}
	if len(bins) > 0 {
		text(&b, svgLeft, svgHeight-svgBottom+18, "start", short(bins[0].From))
		text(&b, svgWidth-svgRight, svgHeight-svgBottom+18, "end", short(bins[len(bins)-1].To))
		text(&b, svgLeft+plotWidth/2, svgHeight-svgBottom+36, "middle", "return")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func text(b *strings.Builder, x, y float64, anchor, content string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	_ = xml.EscapeText(b, []byte(content)) // a strings.Builder takes everything
	b.WriteString("</text>\n")
}
