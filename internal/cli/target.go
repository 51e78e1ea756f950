package cli

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/catalog"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/rollout"
)

// targetHelp says what commands that play take as TARGET.
const targetHelp = `TARGET is the URLs of servers that run, the name of an environment that ships ("oenv
serve --list"), which is then served in this process, or what "oenv run" starts: an image,
a Space, a project. host:port is a URL.`

// targeting is the flags of the commands that play, and what they make of TARGET.
type targeting struct {
	streams    *Streams
	connection connection
	timeout    time.Duration
}

func (t *targeting) register(cmd *cobra.Command) {
	t.connection.register(cmd.Flags())
	cmd.Flags().DurationVar(&t.timeout, "message-timeout", openenv.DefaultMessageTimeout, "longest wait for an answer, 0 for no limit")
}

// options are those of the clients.
func (t *targeting) options() ([]openenv.Option, error) {
	if t.timeout < 0 {
		return nil, usagef("--message-timeout: %v is negative", t.timeout)
	}
	header, err := t.connection.header()
	if err != nil {
		return nil, err
	}
	return []openenv.Option{openenv.WithHeaders(header), openenv.WithMessageTimeout(t.timeout)}, nil
}

// target reads TARGET. Nothing is started yet. A server in this process has room for
// that many sessions.
func (t *targeting) target(ctx context.Context, command string, args []string, sessions int) (rollout.Target, error) {
	switch {
	case len(args) == 0:
		return rollout.Target{}, usagef(`%s: the target is missing: URLs, an environment's name, an image, a Space or a project`, command)
	case allURLs(args):
		for _, url := range args {
			if _, err := t.connection.client(url); err != nil {
				return rollout.Target{}, err
			}
		}
		return rollout.URLs(args...), nil
	case len(args) > 1:
		return rollout.Target{}, usagef("%s: several targets must all be URLs", command)
	}
	if entry, err := catalog.Find(args[0]); err == nil {
		srv, err := entry.New(envserver.WithMaxSessions(sessions))
		if err != nil {
			return rollout.Target{}, usagef("%s: %s", command, strings.TrimPrefix(err.Error(), "envserver.New: "))
		}
		return rollout.Embedded(srv), nil
	}
	return t.started(ctx, args[0])
}

// started is what run would start, with the defaults of run's flags.
func (t *targeting) started(ctx context.Context, source string) (rollout.Target, error) {
	run := &runOptions{streams: t.streams, quiet: true, changed: func(string) bool { return false }}
	run.register(&cobra.Command{})
	run.quiet = true
	set, err := run.settings()
	if err != nil {
		return rollout.Target{}, err
	}
	what, err := run.choose(ctx, []string{source}, -1)
	if err != nil {
		return rollout.Target{}, err
	}
	e, err := set.build(what)
	if err != nil {
		return rollout.Target{}, err
	}
	return rollout.Providers(e.provider), nil
}

func allURLs(args []string) bool {
	for _, a := range args {
		if !looksLikeURL(a) {
			return false
		}
	}
	return true
}

// looksLikeURL tells an address from an image with a tag: host:port has a number that
// is a port, and a host that is this machine, an IP address or a name with a dot.
func looksLikeURL(text string) bool {
	if scheme, _, ok := strings.Cut(text, "://"); ok {
		return !strings.HasPrefix(scheme, "git+")
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	return host == "localhost" || net.ParseIP(host) != nil || strings.Contains(host, ".")
}
