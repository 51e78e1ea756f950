package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/openenv-go/openenv/internal/plot"
)

// chart is a drawing of the page.
type chart struct {
	name    string
	drawing interface{ Write(w io.Writer) error }
}

// notes is what numbers do not say: written by hand, and kept with the program so that
// the page is made whole.
//
//go:embed notes.md
var notes string

// publish prints the report, or writes the page.
func (b *bench) publish() error {
	b.report.charts = append(b.report.charts, b.throughputCharts()...)
	switch {
	case b.cfg.json:
		return json.NewEncoder(os.Stdout).Encode(b.report)
	case b.cfg.out == "":
		_, err := os.Stdout.Write(b.page(""))
		return err
	}
	folder := strings.TrimSuffix(b.cfg.out, filepath.Ext(b.cfg.out))
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a folder of the repository
		return err
	}
	var errs []error
	for _, c := range b.report.charts {
		var svg bytes.Buffer
		errs = append(errs, c.drawing.Write(&svg), os.WriteFile(filepath.Join(folder, c.name+".svg"), svg.Bytes(), 0o644)) //nolint:gosec // as above
	}
	errs = append(errs, os.WriteFile(b.cfg.out, b.page(filepath.Base(folder)), 0o644)) //nolint:gosec // as above
	return errors.Join(errs...)
}

// page is the report as Markdown, with the charts of a folder unless it is empty.
func (b *bench) page(folder string) []byte {
	var w bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&w, format+"\n", args...) }
	r := &b.report
	line("# Performance\n")
	line("Written by `%s`; `make bench-full` writes it anew. All figures are of one run on one\nmachine (%s), client and load generator included.", r.Command, r.Machine)
	line("\nA figure is the median of at least %d rounds, with the quartiles in brackets. Rounds of all contenders are\ninterleaved, and a ratio is made round by round.\n", min(5, r.Rounds))
	line("## Goals\n")
	ratioTable(&w, r.Ratios)
	for _, c := range r.charts {
		if folder != "" {
			line("\n![%s](%s/%s.svg)", c.name, folder, c.name)
		}
	}
	line("\n## Time of a step\n")
	line("Microseconds, all sessions of a client together: a million by the throughput. `go run ./bench -part steps`.\n" +
		"\"Python, step a coroutine\" is the Python server with an environment whose step is `async`, which it runs\nwithout a thread.")
	b.matrix(&w)
	line("\nAllocations of a step on the client alone, 100 B: typed %.1f, await %.1f, raw map %.1f\n(`go test -run Allocations ./bench`).", r.Allocs.Typed, r.Allocs.Await, r.Allocs.Raw)
	for _, t := range r.Tables {
		line("\n## %s\n", t.Title)
		line("%s\n\nCommand: `%s`\n", t.Note, t.Command)
		markdown(&w, t.Header, t.Rows)
	}
	w.WriteString("\n" + notes)
	return w.Bytes()
}

func ratioTable(w *bytes.Buffer, ratios []Ratio) {
	var rows [][]string
	for _, r := range ratios {
		goal, met := r.Goal, map[bool]string{true: "yes", false: "**no**"}[r.Met]
		if goal == "" {
			goal, met = "–", "–"
		}
		value := r.Value.text()
		if r.Value.Q1 == r.Value.Q3 {
			value = number(r.Value.Median)
		}
		rows = append(rows, []string{r.What, value + " " + r.Unit, goal, met})
	}
	markdown(w, []string{"what", "measured", "goal", "met"}, rows)
}

// matrix writes a table for each group.
func (b *bench) matrix(w *bytes.Buffer) {
	for _, g := range b.cfg.groups() {
		var rows [][]string
		for _, f := range b.report.Figures {
			if f.Sessions == g.sessions && f.Bytes == g.size {
				rows = append(rows, []string{f.Client, f.Server, f.US.text(), number(1e6 / f.US.Median)})
			}
		}
		fmt.Fprintf(w, "\n### %d session%s, %s\n\n", g.sessions, map[bool]string{true: "s"}[g.sessions > 1], sizeText(g.size))
		markdown(w, []string{"client or floor", "server", "µs", "steps/s"}, rows)
	}
}

func markdown(w *bytes.Buffer, header []string, rows [][]string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}

// throughputCharts draw the small steps of one session and of many.
func (b *bench) throughputCharts() (charts []chart) {
	for _, sessions := range []int{1, 64} {
		bars := plot.Bars{Title: fmt.Sprintf("Steps per second, %d session%s, 100 B", sessions, map[bool]string{true: "s"}[sessions > 1]), Value: plot.Axis{Label: "steps/s", Log: true}}
		for _, f := range b.report.Figures {
			if f.Sessions != sessions || f.Bytes != small {
				continue
			}
			name := f.Client
			if f.Server != "" {
				name += " → " + f.Server
			}
			bars.Bars = append(bars.Bars, plot.Bar{Name: name, Value: 1e6 / f.US.Median, Low: 1e6 / f.US.Q3, High: 1e6 / f.US.Q1})
		}
		charts = append(charts, chart{fmt.Sprintf("steps-%d", sessions), bars})
	}
	return charts
}
