package cli

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/openenv-go/openenv/internal/load"
	"github.com/openenv-go/openenv/internal/plot"
)

// text is the report for people: a table of the batches, then one of times for each.
func (o *benchOptions) text(rep *benchReport) []byte {
	var b bytes.Buffer
	where := rep.Target
	if rep.Embedded {
		where += ", served in this process"
	}
	fmt.Fprintf(&b, "%s: %d steps a session, %.0f steps/s\n\n", oneLine(where), rep.Steps, rep.StepsPerSecond)
	bolded := func(s string) string { return o.streams.paint(bold, s) }
	batches := &table{
		header: []string{"SESSIONS", "SUCCESS", "AT ONCE", "SECONDS", "STEPS/S", "CLIENT", "SERVER"},
		limits: []int{10, 10, 10, 10, 10, 34, 34},
	}
	for _, r := range rep.Batches {
		batches.add(strconv.Itoa(r.Sessions), fmt.Sprintf("%.2f %%", 100*r.SuccessRate), strconv.Itoa(r.PeakOpen),
			fmt.Sprintf("%.2f", r.Seconds), fmt.Sprintf("%.0f", r.StepsPerSecond), usageText(r.Client), usageText(r.Server))
	}
	batches.print(&b, o.streams.width(), bolded)
	for _, r := range rep.Batches {
		fmt.Fprintf(&b, "\n%d sessions, milliseconds\n", r.Sessions)
		times := &table{header: []string{"", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"}, limits: []int{10, 10, 10, 10, 10, 10, 10}}
		for _, row := range parts(r) {
			l := row.latency
			times.add(row.name, ms(l.Mean), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.P999), ms(l.Max))
		}
		times.print(&b, o.streams.width(), bolded)
		for _, f := range r.Failures {
			fmt.Fprintf(&b, "  %s\n", o.streams.paint(red, fmt.Sprintf("%d × %s: %s", f.Count, f.Kind, oneLine(f.Example))))
		}
	}
	return b.Bytes()
}

type benchPart struct {
	name    string
	latency load.Latency
}

func parts(r *load.Result) []benchPart {
	return []benchPart{{"connect", r.Connect}, {"reset", r.Reset}, {"step", r.Step}, {"total", r.Total}}
}

func ms(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func usageText(u *load.Usage) string {
	if u == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f s, %.1f KiB each", u.CPU, float64(u.PerSession)/1024)
}

// chart draws the percentiles of the parts: over the batches when there are several,
// else over themselves.
func chart(rep *benchReport) plot.Lines {
	c := plot.Lines{Title: "bench " + rep.Target, Y: plot.Axis{Label: "milliseconds", Log: true}}
	if len(rep.Batches) > 1 {
		c.X = plot.Axis{Label: "sessions", Log: true}
		for i, name := range []string{"connect", "reset", "step", "total"} {
			s := plot.Series{Name: name + " P99"}
			for _, r := range rep.Batches {
				s.Points = append(s.Points, plot.Point{X: float64(r.Sessions), Y: parts(r)[i].latency.P99})
			}
			c.Series = append(c.Series, s)
		}
		return c
	}
	c.X = plot.Axis{Label: "percentile"}
	for _, part := range parts(rep.Batches[0]) {
		l := part.latency
		c.Series = append(c.Series, plot.Series{Name: part.name, Points: []plot.Point{{X: 50, Y: l.P50}, {X: 90, Y: l.P90}, {X: 99, Y: l.P99}, {X: 99.9, Y: l.P999}, {X: 100, Y: l.Max}}})
	}
	return c
}
