package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/verify"
)

type replayOptions struct {
	targeting

	json bool
}

func newReplay(s *Streams) *cobra.Command {
	o := &replayOptions{targeting: targeting{streams: s}}
	cmd := &cobra.Command{
		Use:   "replay FILE TARGET",
		Short: "Play a record again and find the first difference",
		Long: `replay plays the episodes of a file again, with the seeds and actions that they have, and
compares observation, reward and done of every answer. It prints the first difference of
each episode that has one; the exit code is 1 then.

` + targetHelp,
		Example: `  oenv replay run.jsonl http://localhost:8000
  oenv replay run.jsonl gridworld --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("replay: a file and one target are wanted, not %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return untilInterrupt(cmd.Context(), func(ctx context.Context) error { return o.run(ctx, args[0], args[1]) })
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	o.register(cmd)
	return cmd
}

func (o *replayOptions) run(ctx context.Context, path, where string) error {
	file, err := record.Load(path)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	opts, err := o.options()
	if err != nil {
		return err
	}
	target, err := o.target(ctx, "replay", []string{where}, 2)
	if err != nil {
		return err
	}
	report, err := verify.Replay(ctx, file, target, opts...)
	if err != nil {
		return err
	}
	if err := o.print(report); err != nil {
		return err
	}
	if n := len(report.Divergences); n > 0 {
		return fmt.Errorf("replay: %d of %d episodes differ", n, report.Episodes)
	}
	return nil
}

func (o *replayOptions) print(report *verify.ReplayReport) error {
	if o.json {
		return json.NewEncoder(o.streams.Out).Encode(report)
	}
	var b bytes.Buffer
	for i := range report.Divergences {
		fmt.Fprintln(&b, oneLine(report.Divergences[i].String()))
	}
	fmt.Fprintf(&b, "%d episodes, %d steps", report.Episodes, report.Steps)
	if report.Skipped > 0 {
		fmt.Fprintf(&b, ", %d unfinished ones left out", report.Skipped)
	}
	if len(report.Divergences) == 0 {
		b.WriteString(": no difference")
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(o.streams.Out)
	return err
}

type checkOptions struct {
	targeting

	determinism bool
	seed        int64
	steps       int
	params      []string
	ignore      []string
	json        bool
}

func newCheck(s *Streams) *cobra.Command {
	o := &checkOptions{targeting: targeting{streams: s}}
	cmd := &cobra.Command{
		Use:   "check TARGET --determinism",
		Short: "Find out whether an environment does the same again",
		Long: `check asks an environment for what a run relies on. With --determinism: the same seed gives
the same episode, another seed another one, whatever goes on in other sessions, and after
a restart of the server, if check has started it. The actions are samples of the action
schema. The exit code is 1 when a property is missing; --ignore leaves one out, "other
seed" say for an environment without chance.

` + targetHelp,
		Example: `  oenv check gridworld --determinism
  oenv check http://localhost:8000 --determinism --seed 7 --json
  oenv check echo --determinism --ignore "other seed"`,
		Args: oneTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			return untilInterrupt(cmd.Context(), func(ctx context.Context) error { return o.run(ctx, args) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.determinism, "determinism", false, "look at seeds, neighbours and a restart")
	f.Int64Var(&o.seed, "seed", 1, "the seed")
	f.IntVar(&o.steps, "max-steps", 50, "longest episode that is played")
	f.StringArrayVar(&o.params, "param", nil, "give every reset this parameter, as `name=value`, the value as JSON or else as text; can be given again")
	f.StringArrayVar(&o.ignore, "ignore", nil, "do not fail for this `property`; can be given again")
	f.BoolVar(&o.json, "json", false, "print JSON, one object a line")
	o.register(cmd)
	return cmd
}

func oneTarget(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s: one target is wanted, not %d arguments", cmd.Name(), len(args))
	}
	return nil
}

func (o *checkOptions) run(ctx context.Context, args []string) error {
	switch {
	case !o.determinism:
		return usagef("check: there is nothing to look at: --determinism")
	case o.steps < 1:
		return usagef("--max-steps: %d is below 1", o.steps)
	}
	ignored := map[verify.Property]bool{}
	for _, name := range o.ignore {
		switch p := verify.Property(name); p {
		case verify.SameSeed, verify.OtherSeed, verify.Neighbours, verify.Restart:
			ignored[p] = true
		default:
			return usagef("--ignore: %q is none of %s, %s, %s, %s", name, verify.SameSeed, verify.OtherSeed, verify.Neighbours, verify.Restart)
		}
	}
	cfg := verify.DeterminismConfig{Seed: o.seed, Steps: o.steps}
	var err error
	if cfg.Reset, err = readParams(o.params); err != nil {
		return err
	}
	if cfg.Options, err = o.options(); err != nil {
		return err
	}
	target, err := o.target(ctx, "check", args, 4)
	if err != nil {
		return err
	}
	findings, err := verify.Determinism(ctx, target, cfg)
	if err != nil {
		return err
	}
	failed := 0
	for _, f := range findings {
		if !f.OK && !ignored[f.Property] {
			failed++
		}
	}
	if err := o.print(findings); err != nil {
		return err
	}
	if failed > 0 {
		return errors.New("check: the environment is not deterministic")
	}
	return nil
}

func (o *checkOptions) print(findings []verify.Finding) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, f := range findings {
		if o.json {
			if err := enc.Encode(f); err != nil {
				return err
			}
			continue
		}
		verdict := o.streams.paint(green, "yes")
		switch {
		case f.Skipped != "":
			verdict = "not looked at: " + f.Skipped
		case !f.OK:
			verdict = o.streams.paint(red, "no") + ": " + oneLine(f.Difference)
		}
		fmt.Fprintf(&b, "%-12s%s\n", f.Property, verdict)
	}
	_, err := b.WriteTo(o.streams.Out)
	return err
}
