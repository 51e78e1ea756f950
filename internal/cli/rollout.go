package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/policy"
	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/stats"
)

type rolloutOptions struct {
	targeting

	episodes, sessions   int
	seed                 int64
	steps                int
	time                 time.Duration
	minReturn, maxReturn float64
	params               []string
	policy               string
	attempts             int
	out                  string
	fragile              bool
	resume               bool
	json                 bool

	changed func(flag string) bool
}

func newRollout(s *Streams) *cobra.Command {
	o := &rolloutOptions{targeting: targeting{streams: s}}
	cmd := &cobra.Command{
		Use:   "rollout TARGET... [--policy command -- PROGRAM ARG...]",
		Short: "Play many episodes at once and put them on file",
		Long: `rollout plays episodes on as many sessions as there is room for, up to --sessions, and
prints what came out. Each episode has a seed of its own, which follows from --seed: the
same run gives the same episodes, however many sessions and servers play them. An episode
whose session is lost begins again.

` + targetHelp + `

--policy is random, which samples the schema of the actions; replay:FILE, which takes the
actions and seeds of a record again; or command, a program in any language that stands
after --.

With --out the episodes are on file, one a line, each as soon as it is finished; with
--resume the episodes that are on file already are not played again, and a file of another
run is refused. "oenv stats" and "oenv show" read such files. The exit code is 5 when
episodes were lost for good.`,
		Example: `  oenv rollout gridworld --episodes 200
  oenv rollout http://localhost:8000 http://localhost:8001 --episodes 1000 --sessions 64 --seed 1 --out run.jsonl
  oenv rollout http://localhost:8000 --episodes 2000 --sessions 64 --seed 1 --out run.jsonl --resume
  oenv rollout gridworld --policy command -- python policy.py`,
		Args: func(*cobra.Command, []string) error { return nil }, // target says more
		RunE: func(cmd *cobra.Command, args []string) error {
			o.changed = cmd.Flags().Changed
			return untilInterrupt(cmd.Context(), func(ctx context.Context) error {
				return o.run(ctx, args, cmd.ArgsLenAtDash())
			})
		},
	}
	o.register(cmd)
	return cmd
}

func (o *rolloutOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.episodes, "episodes", 100, "episodes to play")
	f.IntVar(&o.sessions, "sessions", 8, "sessions at once")
	f.Int64Var(&o.seed, "seed", 0, "seed of the run")
	f.IntVar(&o.steps, "max-steps", 1000, "steps after which an episode is truncated, 0 for no limit")
	f.DurationVar(&o.time, "max-time", 0, "time after which an episode is truncated, 0 for no limit")
	f.Float64Var(&o.minReturn, "min-return", 0, "truncate an episode whose return is at or below this")
	f.Float64Var(&o.maxReturn, "max-return", 0, "truncate an episode whose return is at or above this")
	f.StringArrayVar(&o.params, "param", nil, "give every reset this parameter, as `name=value`, the value as JSON or else as text; can be given again")
	f.StringVar(&o.policy, "policy", "random", "who plays: random, replay:FILE, or command")
	f.IntVar(&o.attempts, "attempts", rollout.DefaultMaxAttempts, "how often an episode is tried whose sessions are lost")
	f.BoolVar(&o.fragile, "fragile", false, "let sessions end with their sockets, as they do on Python servers, so that a cut in the network costs an attempt")
	f.StringVar(&o.out, "out", "", "put the episodes into this `file`, which must not exist")
	f.BoolVar(&o.resume, "resume", false, "go on with the file of --out")
	f.BoolVar(&o.json, "json", false, "print the summary as one JSON document")
	o.targeting.register(cmd)
}

func (o *rolloutOptions) run(ctx context.Context, args []string, dash int) error {
	var program []string
	if dash >= 0 {
		args, program = args[:dash], args[dash:]
	}
	cfg, err := o.config()
	if err != nil {
		return err
	}
	play, closePolicy, err := o.choosePolicy(program)
	if err != nil {
		return err
	}
	defer closePolicy()
	target, err := o.target(ctx, "rollout", args, max(o.sessions, 1))
	if err != nil {
		return err
	}
	run, err := rollout.Run(ctx, rollout.Raw, target, play, cfg)
	if err != nil {
		return err
	}
	if n := run.Skipped(); n > 0 {
		o.streams.note(fmt.Sprintf("oenv: %d of %d episodes are on file already\n", n, o.episodes))
	}
	stop := o.streams.rolloutProgress(run)
	summary, err := run.Wait()
	stop()
	if printed := o.print(summary, run.Returns()); printed != nil {
		return errors.Join(err, printed)
	}
	if lost := summary.Endings[record.Lost]; err == nil && lost > 0 {
		return &runError{exitLost, fmt.Errorf("rollout: %d of %d episodes were lost in each of %d attempts", lost, summary.Episodes, o.attempts)}
	}
	return err
}

// config reads the flags. What one has wrong is told by its name.
func (o *rolloutOptions) config() (rollout.Config, error) {
	cfg := rollout.Config{
		Episodes: o.episodes, Sessions: o.sessions, Seed: o.seed,
		Limits:      record.Limits{Steps: o.steps, Time: o.time},
		MaxAttempts: o.attempts, Fragile: o.fragile, Out: o.out, Resume: o.resume,
	}
	for flag, n := range map[string]int{"episodes": o.episodes, "sessions": o.sessions, "attempts": o.attempts} {
		if n < 1 {
			return cfg, usagef("--%s: %d is below 1", flag, n)
		}
	}
	switch {
	case o.steps < 0:
		return cfg, usagef("--max-steps: %d is negative", o.steps)
	case o.time < 0:
		return cfg, usagef("--max-time: %v is negative", o.time)
	case o.resume && o.out == "":
		return cfg, usagef("--resume: goes on with the file of --out, which is missing")
	}
	if o.changed("min-return") {
		cfg.Limits.MinReturn = &o.minReturn
	}
	if o.changed("max-return") {
		cfg.Limits.MaxReturn = &o.maxReturn
	}
	if err := cfg.Limits.Check(); err != nil {
		return cfg, usagef("--min-return, --max-return: %v", err)
	}
	var err error
	if cfg.Reset, err = readParams(o.params); err != nil {
		return cfg, err
	}
	if cfg.Options, err = o.options(); err != nil {
		return cfg, err
	}
	cfg.Logger = slog.New(slog.NewTextHandler(o.streams.Err, &slog.HandlerOptions{Level: slog.LevelError}))
	return cfg, nil
}

// readParams reads reset parameters.
func readParams(texts []string) (openenv.Object, error) {
	params := openenv.Object{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok || name == "":
			return nil, usagef("--param: a parameter is given as name=value")
		case name == "seed":
			return nil, usagef("--param: the seed of a reset follows from --seed")
		case json.Valid([]byte(value)):
			params[name] = json.RawMessage(value)
		default:
			params[name] = value
		}
	}
	return params, nil
}

// choosePolicy makes the policy, and what ends it.
func (o *rolloutOptions) choosePolicy(program []string) (policy.Raw, func(), error) {
	nothing := func() {}
	if len(program) > 0 && o.policy != "command" {
		return nil, nothing, usagef("--policy: a program after -- is for the policy command, not for %s", o.policy)
	}
	path, isReplay := strings.CutPrefix(o.policy, "replay:")
	switch {
	case o.policy == "random":
		return policy.Random(), nothing, nil
	case isReplay:
		file, err := record.Load(path)
		if err != nil {
			return nil, nothing, usagef("--policy: %w", err)
		}
		return policy.Replay(file), nothing, nil
	case o.policy == "command" && len(program) == 0:
		return nil, nothing, usagef("--policy: the program of the policy command comes after --")
	case o.policy == "command":
		c := policy.NewCommand(o.streams.Err, program[0], program[1:]...)
		return c, func() { _ = c.Close() }, nil
	}
	return nil, nothing, usagef("--policy: %q is none of random, replay:FILE, command", o.policy)
}

// print prints what came out.
func (o *rolloutOptions) print(s stats.Summary, returns []float64) error {
	if o.json {
		return json.NewEncoder(o.streams.Out).Encode(s)
	}
	var b bytes.Buffer
	o.streams.summary(&b, s)
	o.streams.histogram(&b, returns, defaultBins)
	_, err := b.WriteTo(o.streams.Out)
	return err
}
