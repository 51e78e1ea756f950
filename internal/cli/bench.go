package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/internal/load"
)

type benchOptions struct {
	streams    *Streams
	connection connection
	target     string

	sessions int
	batches  []int
	steps    int
	payload  int
	wait     time.Duration
	action   string
	dials    int
	sources  int
	hold     time.Duration
	every    time.Duration
	timeout  time.Duration
	server   int
	json     bool
	svg      string

	changed func(flag string) bool
}

func newBench(s *Streams) *cobra.Command {
	o := &benchOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "bench TARGET",
		Short: "Measure a server, or an environment that ships, under many sessions",
		Long: `bench plays sessions that all begin at once, each of them connect, reset, steps and
close, and prints how long each part took, what failed and why, and what the processes
used of this machine. TARGET is a server's URL, or the name of an environment that ships,
which is then served in this process.

The action of a step is chosen by the server's schema: --payload is the size of a field
"message", --wait the value of a field "wait_s". For other environments give --action.

Times are from a histogram that is exact to a thousandth. "total" counts from the begin
of the batch to a session's close: waiting for one of the --dials is part of it. With
--hold all sessions stay open together after their steps, and memory is that of open,
idle sessions; without, it is the highest of the batch.

A session needs a descriptor here, and with a server in this process two. Connections to
a loopback address such as 127.0.0.1 come from several (on Linux): one has 28,000 ports,
and a closed connection keeps its own for a minute.

The exit code is 0 when every session succeeded. The JSON document has
"steps_per_second", all steps by all the time, and the batches.`,
		Example: `  oenv bench echo --sessions 64 --steps 1000 --payload 100
  oenv bench http://127.0.0.1:8000 --batches 32,1024,16384 --steps 1 --wait 1s
  oenv bench http://127.0.0.1:8000 --sessions 4096 --hold 10m --every 30s --json
  oenv bench wordle --action '{"guess": "crane"}' --svg wordle.svg`,
		Args:              o.oneTarget,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.target, o.changed = args[0], cmd.Flags().Changed
			return untilInterrupt(cmd.Context(), o.run)
		},
	}
	o.register(cmd)
	return cmd
}

func (o *benchOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	o.connection.register(f)
	f.IntVar(&o.sessions, "sessions", 64, "sessions of the one batch")
	f.IntSliceVar(&o.batches, "batches", nil, "run a batch for each `number` of sessions, one after the other")
	f.IntVar(&o.steps, "steps", 100, "steps of each session")
	f.IntVar(&o.payload, "payload", 100, `size of an action's field "message", in characters`)
	f.DurationVar(&o.wait, "wait", 0, `an action's field "wait_s"`)
	f.StringVar(&o.action, "action", "", "the action of each step, as a JSON `object`")
	f.IntVar(&o.dials, "dials", load.DefaultDials, "sessions that connect at the same time")
	f.IntVar(&o.sources, "sources", 0, "loopback `addresses` to connect from (default: as many as the sessions need)")
	f.DurationVar(&o.hold, "hold", 0, "keep all sessions open together for so long after their steps")
	f.DurationVar(&o.every, "every", 0, "a step of each held session in this time, 0 for none")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "longest that one call may take")
	f.IntVar(&o.server, "server-pid", 0, "measure this process as the server (default: the one that listens at the URL, if it can be seen)")
	f.BoolVar(&o.json, "json", false, "print one JSON document")
	f.StringVar(&o.svg, "svg", "", "also draw the percentiles into this `file`")
}

func (o *benchOptions) oneTarget(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usagef("bench: the target is missing: a server's URL, or the name of an environment that ships")
	case 1:
		return nil
	}
	return usagef("bench: one target is wanted, not %d arguments", len(args))
}

// check finds what is wrong with the flags before anything is started.
func (o *benchOptions) check() error {
	if !o.changed("batches") {
		o.batches = []int{o.sessions}
	}
	for _, n := range o.batches {
		if n < 1 {
			return usagef("bench: a batch of %d sessions", n)
		}
	}
	for flag, n := range map[string]struct{ value, least int }{
		"steps": {o.steps, 0}, "payload": {o.payload, 0}, "sources": {o.sources, 0}, "server-pid": {o.server, 0}, "dials": {o.dials, 1},
	} {
		if n.value < n.least {
			return usagef("--%s: %d is below %d", flag, n.value, n.least)
		}
	}
	for flag, d := range map[string]time.Duration{"wait": o.wait, "hold": o.hold, "every": o.every, "timeout": o.timeout} {
		if d < 0 {
			return usagef("--%s: %v is negative", flag, d)
		}
	}
	if o.changed("action") && (o.changed("payload") || o.changed("wait")) {
		return usagef("bench: --action says all of the action, --payload and --wait exclude it")
	}
	return nil
}

// benchReport is what --json prints.
type benchReport struct {
	Target         string          `json:"target"`
	StepsPerSecond float64         `json:"steps_per_second"` // all steps by all the time
	Action         json.RawMessage `json:"action"`
	Steps          int             `json:"steps"` // of each session
	Dials          int             `json:"dials"`
	Embedded       bool            `json:"embedded"` // the server is this process
	Batches        []*load.Result  `json:"batches"`
}

func (o *benchOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	target, err := o.open(ctx)
	if err != nil {
		return err
	}
	rep, err := o.measure(ctx, target)
	err = errors.Join(err, target.close())
	if len(rep.Batches) == 0 {
		return err
	}
	err = errors.Join(err, o.show(rep))
	for _, b := range rep.Batches {
		if b.Err() != nil {
			err = errors.Join(err, fmt.Errorf("bench: %w", b.Err()))
		}
	}
	return err
}

// measure runs the batches, those before an error included in the report.
func (o *benchOptions) measure(ctx context.Context, target *benchTarget) (*benchReport, error) {
	rep := &benchReport{Target: o.target, Action: target.action, Steps: o.steps, Dials: o.dials, Embedded: target.embedded()}
	var steps, seconds float64
	for i, n := range o.batches {
		if i > 0 && ctx.Err() != nil {
			return rep, context.Cause(ctx)
		}
		stop := o.streams.progress(func() string { return fmt.Sprintf("batch %d of %d: %d sessions", i+1, len(o.batches), n) })
		res, err := load.Run(ctx, load.Plan{
			URL: target.url, Header: target.header, Sessions: n, Steps: o.steps, Action: target.action,
			Dials: o.dials, Sources: o.sources, Hold: o.hold, Every: o.every, Timeout: o.timeout, Server: o.server,
		})
		stop()
		if err != nil {
			return rep, usagef("bench: %w", err)
		}
		rep.Batches = append(rep.Batches, res)
		steps += float64(res.Steps)
		seconds += res.Seconds
		rep.StepsPerSecond = steps / seconds
	}
	return rep, nil
}

// show prints the report, and draws it when that is asked for.
func (o *benchOptions) show(rep *benchReport) error {
	if o.svg != "" {
		if err := o.draw(rep); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	if o.json {
		return json.NewEncoder(o.streams.Out).Encode(rep)
	}
	_, err := o.streams.Out.Write(o.text(rep))
	return err
}

func (o *benchOptions) draw(rep *benchReport) (err error) {
	f, err := os.Create(o.svg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return chart(rep).Write(f)
}
