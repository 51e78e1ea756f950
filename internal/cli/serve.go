package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/envs/catalog"
	"github.com/openenv-go/openenv/envserver"
)

type serveOptions struct {
	streams  *Streams
	list     bool
	json     bool
	host     string
	port     int
	sessions int
	token    string
	mode     string
	strict   bool
	idle     time.Duration
	step     time.Duration
	grace    time.Duration
	origins  []string
	logLevel string

	changed func(flag string) bool
}

func newServe(s *Streams) *cobra.Command {
	o := &serveOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "serve NAME",
		Short: "Serve one of the environments that ship",
		Long: `serve serves an environment until it is told to end, and prints the server's URL when
it accepts connections. "oenv serve --list" shows what there is.

Without a flag the variables of the Python server decide: MAX_CONCURRENT_ENVS for the
sessions, OPENENV_MODE for the mode. ` + tokenVariable + ` is the token that requests must carry.

SIGTERM and Ctrl-C end it: no new sessions are taken, running steps have the grace
period to end and are cancelled then, every environment is closed, and the exit code is
0. A second signal ends it at once.`,
		Example: `  oenv serve echo
  oenv serve gridworld --port 0 --json
  OPENENV_TOKEN=… oenv serve wordle --host 0.0.0.0 --max-sessions 256
  oenv serve --list`,
		Args: func(_ *cobra.Command, args []string) error { return o.oneName(args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completeNames(args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return o.printList()
			}
			o.changed = cmd.Flags().Changed
			return o.run(cmd.Context(), args[0])
		},
	}
	o.register(cmd)
	return cmd
}

// defaultSessions is for environments that share nothing, which all that ship do: one
// session, the default of a server that knows nothing of its environment, would refuse
// the second client.
const defaultSessions = 64

func (o *serveOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "print the name and the description of each environment, one a line")
	f.BoolVar(&o.json, "json", false, "print JSON, one object a line")
	f.StringVar(&o.host, "host", "127.0.0.1", "listen on this `address`; 0.0.0.0 and :: are all of this machine's")
	f.IntVar(&o.port, "port", 8000, "listen on this port, 0 for any that is free")
	f.IntVar(&o.sessions, "max-sessions", 0, fmt.Sprintf("sessions at once (default: the variable MAX_CONCURRENT_ENVS, or else %d)", defaultSessions))
	f.StringVar(&o.token, "token", "", "ask requests for this bearer `token`; better in the variable "+tokenVariable+", which others cannot see")
	f.StringVar(&o.mode, "mode", "", "simulation or production (default: the variable OPENENV_MODE, or else simulation)")
	f.BoolVar(&o.strict, "strict-production", false, "in production mode, refuse reset, step and state on the session socket, too")
	f.DurationVar(&o.idle, "idle-timeout", 0, "end a session on which nothing was asked for so long, 0 for never")
	f.DurationVar(&o.step, "step-timeout", 0, "longest that a call on an environment may take, 0 for no limit")
	f.DurationVar(&o.grace, "grace", 10*time.Second, "how long running calls may go on when the server ends")
	f.StringArrayVar(&o.origins, "origin", nil, "let pages of this `host` use the server from a browser, such as app.example.org or *.example.org; can be given again")
	f.StringVar(&o.logLevel, "log-level", "warn", "what is logged on standard error: debug, info, warn or error")
	for flag, choices := range map[string][]cobra.Completion{
		"mode":      {"simulation", "production"},
		"log-level": {"debug", "info", "warn", "error"},
	} {
		// It fails for a flag that does not exist, and these were just made.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
	}
}

func (o *serveOptions) oneName(args []string) error {
	switch {
	case o.list && len(args) > 0:
		return usagef("serve: --list takes no name, got %q", args[0])
	case o.list:
		return nil
	case len(args) == 0:
		return usagef(`serve: the environment's name is missing ("oenv serve --list" lists them)`)
	case len(args) > 1:
		return usagef("serve: one name is wanted, not %d arguments", len(args))
	}
	return nil
}

func completeNames(args []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if len(args) == 0 {
		for _, e := range catalog.All() {
			names = append(names, cobra.CompletionWithDesc(e.Name, e.Description))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (o *serveOptions) printList() error {
	var (
		names   strings.Builder
		encoder = json.NewEncoder(&names)
	)
	for _, e := range catalog.All() {
		if !o.json {
			fmt.Fprintf(&names, "%s  %s\n", o.streams.paint(bold, fmt.Sprintf("%-11s", e.Name)), e.Description)
			continue
		}
		if err := encoder.Encode(map[string]string{"name": e.Name, "description": e.Description}); err != nil {
			return err
		}
	}
	_, err := o.streams.Out.Write([]byte(names.String()))
	return err
}

// run serves until a signal, or until ctx ends.
func (o *serveOptions) run(ctx context.Context, name string) error {
	entry, err := catalog.Find(name)
	if err != nil {
		return usagef("serve: %w", err)
	}
	opts, err := o.settings()
	if err != nil {
		return err
	}
	srv, err := entry.New(opts...)
	if err != nil {
		return usagef("serve: %s", strings.TrimPrefix(err.Error(), "envserver.New: "))
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	host := strings.Trim(o.host, "[]")
	l, err := envserver.Listen(ctx, net.JoinHostPort(host, strconv.Itoa(o.port)))
	switch {
	case ctx.Err() != nil:
		return nil // told to end before it began
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("serve: %w (--port 0 takes one that is free)", err)
	case err != nil:
		return fmt.Errorf("serve: %w", err)
	}
	if err := o.announce(name, host, l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	return untilSignals(ctx, o.streams, signals, "serve", "what ran was cut off", func(ctx context.Context) error { return srv.Serve(ctx, l) })
}

// announce prints where the server is. The listener is open: who reads the line can
// connect.
func (o *serveOptions) announce(name, host string, addr net.Addr) error {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("serve: %v is no TCP address", addr)
	}
	if !tcp.IP.IsLoopback() && o.token == "" {
		o.streams.note(fmt.Sprintf("oenv: warning: other machines can reach %s, and no token is asked for: set --token or %s\n", net.JoinHostPort(host, strconv.Itoa(tcp.Port)), tokenVariable))
	}
	url := serverURL(host, tcp.Port)
	if o.json {
		return json.NewEncoder(o.streams.Out).Encode(map[string]any{"name": name, "url": url, "port": tcp.Port})
	}
	_, err := fmt.Fprintf(o.streams.Out, "serving %s on %s\n", name, url)
	return err
}

// serverURL is an address that a client on this machine can use: "all of this machine's"
// is none that one can connect to. A name stays one, which a browser's rules or a proxy
// may depend on.
func serverURL(host string, port int) string {
	switch ip := net.ParseIP(host); {
	case host == "":
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// settings turns flags into options. What a flag or its variable has wrong is told by
// the name of that flag or variable.
func (o *serveOptions) settings() ([]envserver.Option, error) {
	if o.port < 0 || o.port > 65535 {
		return nil, usagef("--port: %d is not between 0 and 65535", o.port)
	}
	for flag, d := range map[string]time.Duration{"idle-timeout": o.idle, "step-timeout": o.step, "grace": o.grace} {
		if d < 0 {
			return nil, usagef("--%s: %v is negative", flag, d)
		}
	}
	level, ok := logLevels[o.logLevel]
	if !ok {
		return nil, usagef("--log-level: %q is none of debug, info, warn, error", o.logLevel)
	}
	opts := []envserver.Option{
		envserver.WithIdleTimeout(o.idle),
		envserver.WithStepTimeout(o.step),
		envserver.WithGrace(o.grace),
		envserver.WithLogger(slog.New(slog.NewTextHandler(o.streams.Err, &slog.HandlerOptions{Level: level}))),
	}
	for _, more := range []func() ([]envserver.Option, error){o.limitSessions, o.askForToken, o.chooseMode, o.allowOrigins} {
		added, err := more()
		if err != nil {
			return nil, err
		}
		opts = append(opts, added...)
	}
	if o.strict {
		opts = append(opts, envserver.WithStrictProduction())
	}
	return opts, nil
}
