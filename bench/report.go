package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Report is everything that a run found.
type Report struct {
	StepsPerSecond float64  `json:"steps_per_second"` // one session, 100 bytes, two processes, typed
	Machine        string   `json:"machine"`
	Command        string   `json:"command"`
	Rounds         int      `json:"rounds"`
	Figures        []Figure `json:"figures"`
	Ratios         []Ratio  `json:"ratios"`
	Allocs         Allocs   `json:"allocations_per_step"`
	Tables         []Table  `json:"tables"`
	charts         []chart
}

// Figure is the time of a step, all sessions together: the inverse of the throughput.
type Figure struct {
	Client   string `json:"client"`
	Server   string `json:"server"`
	Sessions int    `json:"sessions"`
	Bytes    int    `json:"bytes"`
	US       spread `json:"us"`
}

// Ratio compares two figures of the same rounds, or a figure with a limit.
type Ratio struct {
	What  string `json:"what"`
	Value spread `json:"value"`
	Unit  string `json:"unit"` // × or another
	Goal  string `json:"goal"`
	Met   bool   `json:"met"`
}

// Table is one experiment beside the matrix of steps.
type Table struct {
	Title   string     `json:"title"`
	Command string     `json:"command"`
	Note    string     `json:"note"`
	Header  []string   `json:"header"`
	Rows    [][]string `json:"rows"`
}

func (t *Table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case spread:
			row[i] = v.text()
		case float64:
			row[i] = number(v)
		default:
			row[i] = fmt.Sprint(c)
		}
	}
	t.Rows = append(t.Rows, row)
}

func (s spread) text() string {
	return fmt.Sprintf("%s (%s – %s)", number(s.Median), number(s.Q1), number(s.Q3))
}

// number keeps three digits that count.
func number(v float64) string {
	switch {
	case v >= 100 || v == float64(int(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// atMost and atLeast judge a value by its median.
func atMost(what string, v spread, limit float64, unit string) Ratio {
	return Ratio{What: what, Value: v, Unit: unit, Goal: fmt.Sprintf("≤ %v %s", limit, unit), Met: v.Median <= limit}
}

func atLeast(what string, v spread, limit float64, unit string) Ratio {
	return Ratio{What: what, Value: v, Unit: unit, Goal: fmt.Sprintf("≥ %v %s", limit, unit), Met: v.Median >= limit}
}

// machine describes what the figures belong to.
func machine(python string) string {
	parts := []string{fmt.Sprintf("%d × %s", runtime.NumCPU(), cpuModel()), runtime.GOOS + "/" + runtime.GOARCH, runtime.Version()}
	if python != "" {
		script := "import sys, importlib.metadata as m; print('Python', sys.version.split()[0] + ', openenv', m.version('openenv') + ', websockets', m.version('websockets') + ', uvicorn', m.version('uvicorn'))"
		if out, err := exec.Command(python, "-c", script).Output(); err == nil {
			parts = append(parts, strings.TrimSpace(string(out)))
		}
	}
	return strings.Join(parts, "; ")
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "CPU"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "CPU"
}
