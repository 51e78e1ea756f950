package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is everything that a run found.
type Report struct {
	StepsPerSecond float64  `json:"steps_per_second"` // one session, 100 bytes, two processes
	Figures        []Figure `json:"figures"`
	Ratios         []Ratio  `json:"ratios"`
	Allocs         Allocs   `json:"allocations_per_step"`
	Go             string   `json:"go"`
	CPUs           int      `json:"cpus"`
}

// Figure is the median time of one round trip and its quartiles, in microseconds.
type Figure struct {
	Name   string  `json:"name"`
	Bytes  int     `json:"bytes"`
	Median float64 `json:"median_us"`
	Q1     float64 `json:"q1_us"`
	Q3     float64 `json:"q3_us"`
}

// Ratio compares two contenders round by round: the median of the ratios.
type Ratio struct {
	What   string  `json:"what"`
	Bytes  int     `json:"bytes"`
	Median float64 `json:"median"`
	Q1     float64 `json:"q1"`
	Q3     float64 `json:"q3"`
	Goal   string  `json:"goal"`
	Met    bool    `json:"met"`
}

// comparisons are the ratios reported; most says that less is better.
var comparisons = []struct {
	what, of, to string
	goal         float64
	most         bool
}{
	{"step ÷ bare echo, one process", stepOne, bareOne, 1.6, true},
	{"step ÷ bare echo, two processes", stepTwo, bareTwo, 1.3, true},
	{"await ÷ blocking", awaitOne, stepOne, 1.2, true},
	{"start and await ÷ blocking", startOne, stepOne, 0, true},
	{"raw map ÷ typed", rawOne, stepOne, 0, true},
	{"Python pair ÷ Go pair, two processes", pyOnPy, stepTwo, 0, false},
	{"Python client ÷ Go client, both on the Python server", pyOnPy, goOnPy, 0, false},
	{"Python pair ÷ Python client on the Go server", pyOnPy, pyOnGo, 0, false},
}

func newReport(cs []*contender, allocs Allocs) Report {
	rep := Report{Allocs: allocs, Go: runtime.Version(), CPUs: runtime.NumCPU()}
	for _, c := range cs {
		q1, median, q3 := quartiles(c.us)
		rep.Figures = append(rep.Figures, Figure{c.name, c.size, median, q1, q3})
		if c.name == stepTwo && c.size == smallSize {
			rep.StepsPerSecond = 1e6 / median
		}
	}
	for _, size := range []int{smallSize, largeSize} {
		for _, cmp := range comparisons {
			of, to := find(cs, cmp.of, size), find(cs, cmp.to, size)
			if of == nil || to == nil {
				continue
			}
			r := Ratio{What: cmp.what, Bytes: size, Met: true}
			ratios := make([]float64, len(of.us))
			for i := range ratios {
				ratios[i] = of.us[i] / to.us[i]
			}
			r.Q1, r.Median, r.Q3 = quartiles(ratios)
			if cmp.goal > 0 {
				r.Goal = fmt.Sprintf("≤ %.1f", cmp.goal)
				r.Met = r.Median <= cmp.goal
			}
			rep.Ratios = append(rep.Ratios, r)
		}
	}
	return rep
}

func find(cs []*contender, name string, size int) *contender {
	for _, c := range cs {
		if c.name == name && c.size == size {
			return c
		}
	}
	return nil
}

func quartiles(values []float64) (q1, median, q3 float64) {
	v := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 { return v[int(q*float64(len(v)-1)+0.5)] }
	return at(0.25), at(0.5), at(0.75)
}

// text is the report for people.
func (r Report) text() string {
	var out strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&out, format, args...) }
	line("%s, %d CPUs; medians with quartiles, rounds interleaved\n\n", r.Go, r.CPUs)
	var rows strings.Builder
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(&rows, format, args...) }
	row("round trip\tbytes\tµs\tquartiles\n")
	for _, f := range r.Figures {
		row("%s\t%d\t%.1f\t%.1f – %.1f\n", f.Name, f.Bytes, f.Median, f.Q1, f.Q3)
	}
	row("\t\t\t\nratio\tbytes\t×\tquartiles\tgoal\n")
	for _, x := range r.Ratios {
		goal := x.Goal
		if goal != "" && !x.Met {
			goal += "  missed"
		}
		row("%s\t%d\t%.2f\t%.2f – %.2f\t%s\n", x.What, x.Bytes, x.Median, x.Q1, x.Q3, goal)
	}
	tw := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	_, _ = io.WriteString(tw, rows.String()) // to memory
	_ = tw.Flush()
	line("\nallocations of a step on the client alone: typed %.1f (goal ≤ 12), await %.1f, raw map %.1f (goal ≤ 25)\n",
		r.Allocs.Typed, r.Allocs.Await, r.Allocs.Raw)
	return out.String()
}
