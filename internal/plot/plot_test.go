package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/plot"
)

// parse fails unless the document is well-formed, and counts its elements.
func parse(t *testing.T, document []byte) map[string]int {
	t.Helper()
	elements := map[string]int{}
	dec := xml.NewDecoder(bytes.NewReader(document))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return elements
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
			for _, a := range start.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("<%s %s=%q>", start.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}

func TestLines(t *testing.T) {
	c := plot.Lines{
		Title: "a < b & c",
		X:     plot.Axis{Label: "sessions", Log: true},
		Y:     plot.Axis{Label: "seconds"},
		Series: []plot.Series{
			{Name: "one", Points: []plot.Point{{32, 1}, {1024, 1.3}, {16384, 5.4}}},
			{Name: "two", Points: []plot.Point{{32, 1.1}, {0, 3}, {64, math.NaN()}}}, // 0 has no logarithm
			{Name: "empty"},
		},
	}
	var first, again bytes.Buffer
	if err := errors.Join(c.Write(&first), c.Write(&again)); err != nil {
		t.Fatal(err)
	}
	got := parse(t, first.Bytes())
	if got["circle"] != 4 || got["polyline"] != 2 {
		t.Errorf("elements %v, want four points in two lines", got)
	}
	for _, text := range []string{"a &lt; b &amp; c", ">sessions<", ">seconds<", ">one<", ">two<", ">10k<", ">100<"} {
		if !strings.Contains(first.String(), text) {
			t.Errorf("no %q in the chart", text)
		}
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Error("the same chart was drawn in two ways")
	}
}

func TestBars(t *testing.T) {
	c := plot.Bars{Title: "rates", Value: plot.Axis{Label: "steps/s"}, Bars: []plot.Bar{
		{Name: "Go", Value: 50000, Low: 49000, High: 52000},
		{Name: "exact", Value: 7},
		{Name: "nothing", Value: math.NaN()},
	}}
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	if got := parse(t, b.Bytes()); got["rect"] != 3 { // the ground and two bars
		t.Errorf("elements %v", got)
	}
	for _, text := range []string{">Go<", ">5e+04<", ">nothing<", ">20k<"} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("no %q in %s", text, b.String())
		}
	}
}

// Nothing to show is drawn as nothing.
func TestEmptyCharts(t *testing.T) {
	for _, c := range []interface{ Write(w io.Writer) error }{
		plot.Lines{}, plot.Lines{X: plot.Axis{Log: true}, Y: plot.Axis{Log: true}}, plot.Bars{},
		plot.Lines{Series: []plot.Series{{Points: []plot.Point{{1, 0}}}}},
		plot.Bars{Bars: []plot.Bar{{Name: "zero"}}},
	} {
		var b bytes.Buffer
		if err := c.Write(&b); err != nil {
			t.Fatal(err)
		}
		parse(t, b.Bytes())
	}
}
