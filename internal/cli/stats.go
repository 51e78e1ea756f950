package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/stats"
)

// defaultBins is the classes of a histogram.
const defaultBins = 12

type statsOptions struct {
	streams *Streams
	json    bool
	svg     string
	bins    int
}

func newStats(s *Streams) *cobra.Command {
	o := &statsOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "stats FILE...",
		Short: "Sum up episodes on file",
		Long: `stats prints a table of the files, with all of them in the last row when there are several,
and a histogram of the returns. Returns and lengths are those of the episodes that were
terminated or truncated. --svg writes the histogram as a picture.`,
		Example: `  oenv stats run.jsonl
  oenv stats a.jsonl b.jsonl --json
  oenv stats run.jsonl --svg returns.svg`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("stats: the file is missing")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	cmd.Flags().StringVar(&o.svg, "svg", "", "write the histogram to this `file`")
	cmd.Flags().IntVar(&o.bins, "bins", defaultBins, "classes of the histogram")
	return cmd
}

// fileStats is a row of the table, and what --json prints of a file.
type fileStats struct {
	File string `json:"file"`
	stats.Summary
	Histogram []stats.Bin `json:"histogram"`
}

func (o *statsOptions) run(paths []string) error {
	if o.bins < 1 {
		return usagef("--bins: %d is below 1", o.bins)
	}
	var all stats.Collector
	rows := make([]fileStats, 0, len(paths)+1)
	for _, path := range paths {
		file, err := record.Load(path)
		if err != nil {
			return fmt.Errorf("stats: %w", err)
		}
		var c stats.Collector
		for _, e := range file.Episodes {
			c.Add(e)
			all.Add(e)
		}
		rows = append(rows, fileStats{path, c.Summary(), stats.Histogram(c.Returns(), o.bins)})
	}
	if len(paths) > 1 {
		rows = append(rows, fileStats{"all", all.Summary(), stats.Histogram(all.Returns(), o.bins)})
	}
	if o.svg != "" {
		title := fmt.Sprintf("%d returns, mean %.4g", all.Summary().Returns.Count, all.MeanReturn())
		picture := stats.SVG(stats.Histogram(all.Returns(), o.bins), title)
		if err := os.WriteFile(o.svg, []byte(picture), 0o666); err != nil { //nolint:gosec // G306: the umask decides
			return fmt.Errorf("stats: %w", err)
		}
	}
	if o.json {
		return json.NewEncoder(o.streams.Out).Encode(map[string]any{"files": rows})
	}
	var b bytes.Buffer
	if len(rows) == 1 {
		o.streams.summary(&b, rows[0].Summary)
	} else {
		o.streams.statsTable(&b, rows)
	}
	o.streams.histogram(&b, all.Returns(), o.bins)
	_, err := b.WriteTo(o.streams.Out)
	return err
}

// statsTable prints a row for each file.
func (s *Streams) statsTable(w *bytes.Buffer, rows []fileStats) {
	t := table{header: []string{"FILE", "EPISODES", "MEAN", "STD", "MIN", "MEDIAN", "MAX", "STEPS", "ENDINGS"}, limits: []int{40, 9, 10, 10, 10, 10, 10, 10, 0}}
	for _, r := range rows {
		d := r.Returns
		t.add(r.File, strconv.Itoa(r.Episodes), number(d.Mean), number(d.Std), number(d.Min), number(d.Median), number(d.Max), strconv.Itoa(r.Steps), endingsText(r.Endings))
	}
	t.print(w, s.width(), func(text string) string { return s.paint(bold, text) })
}

func number(v float64) string { return fmt.Sprintf("%.4g", v) }

// summary prints what is known of some episodes.
func (s *Streams) summary(w *bytes.Buffer, sum stats.Summary) {
	line := func(label, text string) {
		fmt.Fprintf(w, "%s%s\n", s.paint(bold, fmt.Sprintf("%-11s", label)), text)
	}
	text := strconv.Itoa(sum.Episodes)
	if endings := endingsText(sum.Endings); endings != "" {
		text += ": " + endings
	}
	line("episodes", text)
	if sum.LostAttempts > 0 {
		line("attempts", fmt.Sprintf("%d, %d of them lost", sum.Attempts, sum.LostAttempts))
	}
	line("return", distributionText(sum.Returns))
	line("length", distributionText(sum.Lengths))
	line("steps", fmt.Sprintf("%d, %.0f a second", sum.Steps, sum.StepsPerSecond))
	if l := sum.Latency; l.Count > 0 {
		line("latency", fmt.Sprintf("%.3g ms median, %.3g ms 90 %%, %.3g ms 99 %%, %.3g ms longest", l.P50, l.P90, l.P99, l.Max))
	}
}

func distributionText(d stats.Distribution) string {
	if d.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("mean %.4g ± %.3g, from %.4g to %.4g, median %.4g", d.Mean, d.Std, d.Min, d.Max, d.Median)
}

// histogram prints the returns as bars.
func (s *Streams) histogram(w *bytes.Buffer, returns []float64, bins int) {
	if len(returns) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", s.paint(bold, "returns"))
	for _, bar := range stats.Bars(stats.Histogram(returns, bins), s.width()-len(tableIndent)) {
		fmt.Fprintln(w, tableIndent+strings.TrimRight(bar, " "))
	}
}
