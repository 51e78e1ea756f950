package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/moby/moby/client"
	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/provider/docker"
	"github.com/openenv-go/openenv/provider/swarm"
)

// resource is a container or a service that a provider made.
type resource struct {
	Kind    string    `json:"kind"`
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Image   string    `json:"image"`
	URL     string    `json:"url,omitempty"`
	State   string    `json:"state"` // of a service, how many of its replicas run
	Created time.Time `json:"created"`
	Owner   owner     `json:"owner"`
}

// owner is the process that made a resource.
type owner struct {
	PID   int    `json:"pid"`
	Host  string `json:"host"`
	State string `json:"state"` // alive, gone, or unknown: of a process elsewhere nothing is known
}

const (
	ownerAlive   = "alive"
	ownerGone    = "gone"
	ownerUnknown = "unknown"
)

func newOwner(pid int, host string, stale bool) owner {
	here, err := os.Hostname()
	switch {
	case stale:
		return owner{pid, host, ownerGone}
	case err == nil && host == here && pid > 0:
		return owner{pid, host, ownerAlive}
	}
	return owner{pid, host, ownerUnknown}
}

func (o owner) String() string {
	if o.State == ownerUnknown && o.Host != "" {
		return fmt.Sprintf("%d on %s", o.PID, o.Host)
	}
	return fmt.Sprintf("%d, %s", o.PID, o.State)
}

func ofContainer(c docker.Container) resource {
	return resource{"container", c.Name, c.ID, c.Image, c.URL, c.State, c.Created.UTC(), newOwner(c.OwnerPID, c.OwnerHost, c.Stale)}
}

func ofService(s swarm.Service) resource {
	return resource{"service", s.Name, s.ID, s.Image, "", fmt.Sprintf("%d/%d", s.Running, s.Wanted), s.Created.UTC(), newOwner(s.OwnerPID, s.OwnerHost, s.Stale)}
}

// resources lists what there is, the oldest of each kind first.
func resources(ctx context.Context) ([]resource, error) {
	containers, err := docker.List(ctx, "")
	if err != nil {
		return nil, engineTrouble(err)
	}
	services, err := swarm.List(ctx, "")
	if err != nil {
		return nil, engineTrouble(err)
	}
	var all []resource
	for _, c := range containers {
		all = append(all, ofContainer(c))
	}
	for _, s := range services {
		all = append(all, ofService(s))
	}
	return all, nil
}

// engineTrouble gives an engine that does not answer its exit code.
func engineTrouble(err error) error {
	// The functions' names say nothing to who has called a command.
	text := strings.NewReplacer("docker.List: ", "", "docker.Prune: ", "", "swarm.List: ", "", "swarm.Prune: ", "").Replace(err.Error())
	err = &engineError{text, err}
	if op, ok := errors.AsType[*net.OpError](err); client.IsErrConnectionFailed(err) || ok && op.Op == "dial" {
		return &runError{exitUnreachable, err}
	}
	return &runError{exitFailure, err}
}

// engineError is an error of the engine's in the words of a command.
type engineError struct {
	text string
	err  error
}

func (e *engineError) Error() string { return e.text }
func (e *engineError) Unwrap() error { return e.err }

type psOptions struct {
	streams *Streams
	json    bool
}

func newPs(s *Streams) *cobra.Command {
	o := &psOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the containers and services that environments run in",
		Long: `ps lists the containers and the swarm's services that "oenv run" and programs with this
library have started at the engine and that still exist, by their labels. The owner is
the process that started one and is to remove it: of one that is gone nobody will, but
"oenv prune". Of a process on another machine it is not known.

The engine is the one that DOCKER_HOST names, or that of the default socket. If none
answers the exit code is 3.`,
		Example: `  oenv ps
  oenv ps --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return untilInterrupt(cmd.Context(), o.run) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON, one object a line")
	return cmd
}

func (o *psOptions) run(ctx context.Context) error {
	all, err := resources(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return printObjects(o.streams, all)
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i := -1; i < len(all); i++ {
		cells := []string{"NAME", "IMAGE", "URL", "STATE", "AGE", "OWNER"}
		if i >= 0 {
			r := all[i]
			cells = []string{oneLine(r.Name), shortImage(r.Image), cmp.Or(r.URL, "-"), oneLine(r.State), age(r.Created), oneLine(r.Owner.String())}
		}
		if _, err := io.WriteString(w, strings.Join(cells, "\t")+"\n"); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = o.streams.Out.Write(b.Bytes())
	return err
}

func printObjects(s *Streams, all []resource) error {
	encoder := json.NewEncoder(s.Out)
	for _, r := range all {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// shortImage leaves out the digest, which a swarm adds to the name.
func shortImage(image string) string {
	if name, _, _ := strings.Cut(image, "@"); strings.Contains(name, ":") {
		image = name
	}
	return oneLine(image)
}

// age is how long ago something was made, in one unit.
func age(t time.Time) string {
	switch d := max(0, time.Since(t)); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
