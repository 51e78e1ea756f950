package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/provider/docker"
	"github.com/openenv-go/openenv/provider/swarm"
)

type pruneOptions struct {
	streams   *Streams
	dryRun    bool
	olderThan time.Duration
	yes       bool
	json      bool
}

func newPrune(s *Streams) *cobra.Command {
	o := &pruneOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the containers and services whose owner is gone",
		Long: `prune removes what "oenv ps" lists and nobody else will: the containers and services
whose owner has ended without removing them, with their anonymous volumes and networks.
It prints what it removed.

With --older-than it also removes those that are older, whoever owns them: of an owner
on another machine it is not known whether it has ended. If one among them has an owner
that is alive, nothing is removed without --yes.

If no engine answers the exit code is 3.`,
		Example: `  oenv prune --dry-run
  oenv prune
  oenv prune --older-than 24h`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return untilInterrupt(cmd.Context(), o.run) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	f.DurationVar(&o.olderThan, "older-than", 0, "also remove what is older, whoever owns it")
	f.BoolVar(&o.yes, "yes", false, "also if an owner is alive")
	f.BoolVar(&o.json, "json", false, "print JSON, one object a line")
	return cmd
}

func (o *pruneOptions) run(ctx context.Context) error {
	if o.olderThan < 0 {
		return usagef("--older-than: %v is negative", o.olderThan)
	}
	all, err := resources(ctx)
	if err != nil {
		return err
	}
	var doomed []resource
	var owned []string
	for _, r := range all {
		old := o.olderThan > 0 && time.Since(r.Created) >= o.olderThan
		if r.Owner.State == ownerGone || old {
			doomed = append(doomed, r)
		}
		if r.Owner.State == ownerAlive && old {
			owned = append(owned, r.Name)
		}
	}
	switch {
	case o.dryRun:
		return o.print("would remove", doomed)
	case len(owned) > 0 && !o.yes:
		return usagef("prune: %s: the owner is alive: --yes removes what is in use, too (nothing was removed)", strings.Join(owned, ", "))
	}
	containers, err := docker.Prune(ctx, "", o.olderThan)
	services, more := swarm.Prune(ctx, "", o.olderThan)
	var removed []resource
	for _, c := range containers {
		removed = append(removed, ofContainer(c))
	}
	for _, s := range services {
		removed = append(removed, ofService(s))
	}
	if err := o.print("removed", removed); err != nil {
		return err
	}
	if err := errors.Join(err, more); err != nil {
		return engineTrouble(err)
	}
	return nil
}

func (o *pruneOptions) print(what string, which []resource) error {
	if o.json {
		return printObjects(o.streams, which)
	}
	var b strings.Builder
	for _, r := range which {
		fmt.Fprintf(&b, "%s %s %s of %s, %s old, of process %s\n", what, r.Kind, oneLine(r.Name), shortImage(r.Image), age(r.Created), oneLine(r.Owner.String()))
	}
	if len(which) == 0 {
		b.WriteString("nothing to remove\n")
	}
	_, err := o.streams.Out.Write([]byte(b.String()))
	return err
}
