// Command bench measures a step of the client against the floor of the same
// WebSocket library and against the Python package, in one run, and prints ratios.
//
//	go run ./bench                 # or make bench
//	go run ./bench --rounds 15 --json
//
// Rounds of all contenders are interleaved, so that a noisy machine is noisy for all
// of them; a figure is the median of its rounds, with the quartiles beside it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		exit(serveChild())
	}
	var cfg config
	flag.IntVar(&cfg.rounds, "rounds", 9, "rounds of each contender")
	flag.DurationVar(&cfg.round, "round", 300*time.Millisecond, "time of one round")
	flag.StringVar(&cfg.python, "python", "", "interpreter that has the Python package; without one it is left out")
	flag.BoolVar(&cfg.json, "json", false, "print one JSON document")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, cfg))
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
	python string
	json   bool
}

func run(ctx context.Context, cfg config) error {
	local, err := startServers()
	if err != nil {
		return err
	}
	defer local.close()
	child, err := startChild(ctx)
	if err != nil {
		return err
	}
	defer child.stop()

	contenders, err := goContenders(ctx, local.addresses, child.addresses)
	if err != nil {
		return err
	}
	if cfg.python != "" {
		py, err := pythonContenders(ctx, cfg.python, child.addresses)
		if err != nil {
			return err
		}
		contenders = append(contenders, py...)
	}
	defer closeAll(contenders)
	if err := measure(ctx, cfg, contenders); err != nil {
		return err
	}
	allocs, err := measureAllocs(ctx)
	if err != nil {
		return err
	}
	rep := newReport(contenders, allocs)
	if cfg.json {
		return json.NewEncoder(os.Stdout).Encode(rep)
	}
	_, err = os.Stdout.WriteString(rep.text())
	return err
}

// contender is one way of making a round trip.
type contender struct {
	name string
	size int                              // bytes of the message
	step func(context.Context) error      // one round trip; nil when round is set
	many func(time.Duration) (int, error) // a whole round by itself: round trips made
	end  func()
	us   []float64 // microseconds per round trip, one per round
}

func closeAll(cs []*contender) {
	for _, c := range cs {
		c.end()
	}
}

// measure runs the rounds, all contenders one after the other in each.
func measure(ctx context.Context, cfg config, cs []*contender) error {
	for round := range cfg.rounds + 1 {
		progress(cfg, round)
		for _, c := range cs {
			us, err := c.oneRound(ctx, cfg.round)
			if err != nil {
				return fmt.Errorf("%s, %d bytes: %w", c.name, c.size, err)
			}
			if round > 0 { // the first one warms up
				c.us = append(c.us, us)
			}
		}
	}
	return nil
}

func progress(cfg config, round int) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	if round == cfg.rounds {
		fmt.Fprint(os.Stderr, "\r\033[K")
		return
	}
	fmt.Fprintf(os.Stderr, "\r\033[Kround %d of %d", round, cfg.rounds)
}

func (c *contender) oneRound(ctx context.Context, d time.Duration) (us float64, err error) {
	start := time.Now()
	n := 0
	if c.many != nil {
		if n, err = c.many(d); err != nil {
			return 0, err
		}
		return d.Seconds() * 1e6 / float64(n), nil
	}
	for time.Since(start) < d {
		for range 16 {
			if err := c.step(ctx); err != nil {
				return 0, err
			}
		}
		n += 16
	}
	return time.Since(start).Seconds() * 1e6 / float64(n), nil
}
