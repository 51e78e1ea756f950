package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/provider"
)

type runOptions struct {
	streams *Streams

	provider     string
	env          []string
	port         int
	volumes      []string
	memory       string
	cpus         float64
	pull         string
	replicas     int
	registry     string
	token        string
	readyTimeout time.Duration
	stopTimeout  time.Duration
	quiet        bool
	json         bool

	changed func(flag string) bool
}

func newRun(s *Streams) *cobra.Command {
	o := &runOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "run IMAGE | ORG/SPACE | git+URL | DIR | -- COMMAND...",
		Short: "Start an environment, wherever it comes from, and keep it until Ctrl-C",
		Long: `run starts an environment, prints its URL when it is ready, and shows its log on standard
error. Ctrl-C or SIGTERM stops it and removes what was made for it, and the exit code is
0. A second signal does not wait for that: "oenv prune" then removes what is left.

What is started, and by what:

  -- COMMAND...   process: a program of this machine, which is told its port by the
                  variable PORT and in place of {port} in its arguments
  git+URL, DIR    uv: a Python project in a repository, or in a directory with a
                  pyproject.toml; URL[@revision][#subdirectory=path]
  ORG/SPACE       hub: the image of a Space of Hugging Face, unless an image of this
                  name is there
  IMAGE           docker: a container; with --provider swarm, a service

process and uv run the environment with your rights. With --provider uv a Space is run
from its repository. The exit code is 3 if the environment did not get ready, and 1 if it
ended by itself later.`,
		Example: `  oenv run registry.example.com/echo:1.2
  oenv run openenv/echo_env --memory 512m --cpus 1.5
  oenv run git+https://github.com/org/envs@v1.2#subdirectory=echo_env
  oenv run ./echo_env --env GAME=easy
  oenv run --provider swarm --replicas 3 registry.example.com/echo:1.2
  oenv run --json --port 8000 -- ./my-env --listen 127.0.0.1:{port}`,
		Args: func(*cobra.Command, []string) error { return nil }, // choose says more
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.changed = cmd.Flags().Changed
			return o.run(cmd.Context(), args, cmd.ArgsLenAtDash())
		},
	}
	o.register(cmd)
	return cmd
}

func (o *runOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.provider, "provider", "", "what runs it: "+strings.Join(providerNames, ", ")+" (default: what fits)")
	f.StringArrayVar(&o.env, "env", nil, "set this variable, as `name=value`; a name alone takes the value that it has here; can be given again")
	f.IntVar(&o.port, "port", 0, "`port` of a process, or where the image serves in its container (default: a free one, or the one the image exposes)")
	f.StringArrayVar(&o.volumes, "volume", nil, "show `source:target[:mode]` in the container; can be given again")
	f.StringVar(&o.memory, "memory", "", "limit of a container's memory, such as `512m`")
	f.Float64Var(&o.cpus, "cpus", 0, "limit of a container's processors, such as 1.5")
	f.StringVar(&o.pull, "pull", "missing", "when to pull the image: always, missing or never")
	f.IntVar(&o.replicas, "replicas", 2, "containers of a swarm's service")
	f.StringVar(&o.registry, "registry", "", "`host` of the registry with the Spaces' images (default registry.hf.space)")
	f.StringVar(&o.token, "token", "", "`token` for the repository of a private Space; better in the variable HF_TOKEN, which others cannot see")
	f.DurationVar(&o.readyTimeout, "ready-timeout", 0, "how long it may take to get ready, 0 for no limit (default 1m, with uv 10m)")
	f.DurationVar(&o.stopTimeout, "stop-timeout", 30*time.Second, "how long stopping may take; the environment has two thirds of it to end by itself")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not show the environment's log")
	f.BoolVar(&o.json, "json", false, "print one JSON document when it is ready")
	for flag, choices := range map[string][]cobra.Completion{"provider": providerNames, "pull": {"always", "missing", "never"}} {
		// It fails for a flag that does not exist, and these were just made.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
	}
}

// run runs an environment until a signal, or until ctx ends.
func (o *runOptions) run(ctx context.Context, args []string, dash int) error {
	set, err := o.settings()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	what, err := o.choose(ctx, args, dash)
	if err != nil {
		return err
	}
	if err := o.fit(what); err != nil {
		return err
	}
	e, err := set.build(what)
	if err != nil {
		return err
	}
	return untilSignals(ctx, o.streams, signals, "run", `its end was not waited for, "oenv prune" removes what is left`, func(ctx context.Context) error {
		return o.keep(ctx, e)
	})
}

// keep starts an environment, stays until it or ctx ends, and stops it.
func (o *runOptions) keep(ctx context.Context, e *environment) error {
	following, end := context.WithCancel(context.WithoutCancel(ctx))
	var follower sync.WaitGroup
	err := o.untilEnd(ctx, e, func() {
		if e.follow != nil && !o.quiet {
			follower.Go(func() { e.follow(following, o.streams.logLine) })
		}
	})
	stop, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), o.stopTimeout, fmt.Errorf("not done within --stop-timeout, %v", o.stopTimeout))
	defer cancel()
	failed := e.provider.Stop(stop)
	// The log's last lines come with its end.
	defer time.AfterFunc(time.Second, end).Stop()
	follower.Wait()
	end()
	if failed != nil {
		failed = &runError{exitFailure, fmt.Errorf("run: stop: %w", failed)}
		if errors.Is(err, errInterrupted) {
			return failed
		}
	}
	return errors.Join(err, failed)
}

// untilEnd returns nil when the environment was told to end, and else why it did.
func (o *runOptions) untilEnd(ctx context.Context, e *environment, started func()) error {
	endpoint, err := o.start(ctx, e)
	if err == nil {
		started()
		err = e.provider.WaitReady(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return notReady(err)
	}
	if err := o.announce(e, endpoint); err != nil {
		return err
	}
	if err := e.watch(ctx); err != nil {
		return ended(err)
	}
	return nil
}

// start starts the environment, with a pull's progress on a terminal.
func (o *runOptions) start(ctx context.Context, e *environment) (provider.Endpoint, error) {
	defer e.pulled.finish()
	endpoint, err := e.provider.Start(ctx)
	if err == nil {
		e.url = endpoint.URLs[0]
	}
	return endpoint, err
}

// announce prints where the environment is.
func (o *runOptions) announce(e *environment, endpoint provider.Endpoint) error {
	if !o.json {
		_, err := fmt.Fprintf(o.streams.Out, "running %s by %s at %s\n", e.shown, e.kind, strings.Join(endpoint.URLs, " "))
		return err
	}
	ready := runReady{Source: e.shown, Provider: e.kind, URL: endpoint.URLs[0], URLs: endpoint.URLs}
	if e.name != nil {
		ready.Name = e.name()
	}
	return json.NewEncoder(o.streams.Out).Encode(ready)
}

// runReady is what --json prints.
type runReady struct {
	Source   string   `json:"source"`
	Provider string   `json:"provider"`
	Name     string   `json:"name,omitempty"` // of the container or the service
	URL      string   `json:"url"`
	URLs     []string `json:"urls"` // of the replicas
}
