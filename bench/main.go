// Command bench measures this module against its floors and against the Python
// package, in one run on one machine, and reports ratios.
//
//	go run ./bench -oenv bin/oenv -python .peer/bin/python            # a few minutes, to standard output
//	go run ./bench -part replay …                                     # a part of it
//	go run ./bench -full -out docs/performance.md …                   # everything, and the page
//	go run ./bench scale -oenv bin/oenv                               # 16,384 sessions, judged
//	go run ./bench hold -oenv bin/oenv -for 10m                       # the same, held
//
// Rounds of all contenders are interleaved, so that a noisy machine is noisy for all
// of them; a figure is the median of its rounds with the quartiles beside it, and a
// ratio is made round by round. Servers and clients are processes of their own, but
// where the name says otherwise. It is run from the root of the repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		exit(serveChild())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(command(ctx, os.Args[1:]))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type config struct {
	rounds int
	round  time.Duration
	full   bool
	python string
	oenv   string
	out    string
	json   bool
	hold   time.Duration
	part   string
}

func command(ctx context.Context, args []string) error {
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	var cfg config
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&cfg.full, "full", false, "all sizes and experiments, more rounds")
	f.IntVar(&cfg.rounds, "rounds", 0, "rounds of each contender (default 5, with -full 9)")
	f.DurationVar(&cfg.round, "round", 0, "time of one round (default 120ms, with -full 300ms)")
	f.StringVar(&cfg.python, "python", "", "interpreter that has the Python package; without one it is left out")
	f.StringVar(&cfg.oenv, "oenv", "bin/oenv", "the command, as make build makes it")
	f.StringVar(&cfg.out, "out", "", "write the page there, and its charts into a folder of its name")
	f.BoolVar(&cfg.json, "json", false, "print one JSON document")
	f.StringVar(&cfg.part, "part", "", "only this: memory, steps, starting, storm, replay or scale")
	f.DurationVar(&cfg.hold, "for", 10*time.Minute, "hold: how long")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if cfg.rounds == 0 {
		cfg.rounds = map[bool]int{false: 5, true: 9}[cfg.full]
	}
	if cfg.round == 0 {
		cfg.round = map[bool]time.Duration{false: 120 * time.Millisecond, true: 300 * time.Millisecond}[cfg.full]
	}
	b := &bench{cfg: cfg}
	switch name {
	case "":
		return b.run(ctx)
	case "scale":
		return b.runScale(ctx)
	case "hold":
		return b.runHold(ctx)
	}
	return fmt.Errorf("%q is neither scale nor hold", name)
}

// bench is a run in progress.
type bench struct {
	cfg          config
	local, child addresses
	peer         string // the Python server's URL
	peerAsync    string // that of the one whose step is a coroutine
	python       pythonClients
	measured     []*contender
	report       Report
}

// groups are those of the matrix. 64 sessions with 50 MiB each are left out: the
// replies alone would take 3 GiB at each end.
func (c config) groups() []group {
	if !c.full {
		return []group{{1, small, true}, {64, small, false}, {1, medium, false}, {1, large, false}}
	}
	return []group{
		{1, small, true}, {64, small, false}, {1, medium, false}, {64, medium, false},
		{1, large, false}, {64, large, false}, {1, huge, false},
	}
}

func (b *bench) run(ctx context.Context) error {
	b.report = Report{Machine: machine(b.cfg.python), Rounds: b.cfg.rounds, Command: "go run ./bench " + strings.Join(os.Args[1:], " ")}
	stop, err := b.startAll(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"memory", b.measureMemory},
		{"steps", b.measureSteps},
		{"starting", b.measureStart},
		{"storm", b.measureStorm},
		{"replay", b.measureReplay},
		{"scale", b.measureScale},
	} {
		if b.cfg.part != "" && b.cfg.part != part.name {
			continue
		}
		begin := time.Now()
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		progressf("")
		fmt.Fprintf(os.Stderr, "bench: %s took %.0f s\n", part.name, time.Since(begin).Seconds())
	}
	return b.publish()
}

// measureSteps measures the matrix.
func (b *bench) measureSteps(ctx context.Context) (err error) {
	if b.report.Allocs, err = measureAllocs(ctx); err != nil {
		return err
	}
	for _, g := range b.cfg.groups() {
		if err := b.measure(ctx, g); err != nil {
			return err
		}
	}
	b.report.Figures, b.report.Ratios = b.figures(), b.judge()
	if c := b.find(key{goTyped, goServer, 1, small}); c != nil {
		b.report.StepsPerSecond = 1e6 / spreadOf(c.us).Median
	}
	b.report.Ratios = append(b.report.Ratios, atMost("allocations of a typed step on the client", one(b.report.Allocs.Typed), 12, ""))
	return nil
}

// one is a figure that is exact.
func one(v float64) spread { return spread{v, v, v} }

// progressf shows what goes on in a line of the terminal, if there is one.
func progressf(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
}
