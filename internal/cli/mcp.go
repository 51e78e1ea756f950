package cli

import (
	"context"
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

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/bridge"
	"github.com/openenv-go/openenv/mcp"
)

type mcpOptions struct {
	streams    *Streams
	connection toolConnection
	url        string
	listen     string
	idle       time.Duration
	logLevel   string
}

func newMCP(s *Streams) *cobra.Command {
	o := &mcpOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "mcp URL",
		Short: "Offer an environment's tools to an MCP host",
		Long: `mcp is a server of the standard Model Context Protocol in front of any OpenEnv server:
a desktop host or an agent SDK gets the tools of its environment.

It speaks over standard input and output, as hosts start their servers, and ends when
its input does. One session of the environment lives as long; it is reset at the start,
and a call after it was lost starts a new episode, which the host is told.

With --listen it speaks over HTTP (the streamable transport) at the path /mcp, with a
session of the environment for each of the protocol, and prints its URL. Whoever
reaches that address can call the tools.`,
		Example: `  oenv mcp http://localhost:8000
  oenv mcp https://example.org/env --token "$TOKEN"
  oenv mcp localhost:8000 --listen :9000`,
		Args:              oneURL,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			return o.run(cmd.Context())
		},
	}
	o.connection.register(cmd)
	cmd.Flags().StringVar(&o.listen, "listen", "", "speak over HTTP on this `address`, host:port; without a host on this machine only, with port 0 on any that is free")
	cmd.Flags().DurationVar(&o.idle, "idle-timeout", time.Hour, "with --listen: end a session without a request for so long, 0 for never")
	cmd.Flags().StringVar(&o.logLevel, "log-level", "error", "what is logged on standard error: debug, info, warn or error")
	_ = cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]cobra.Completion{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// run serves until the host leaves or a signal comes. Either is the normal end.
func (o *mcpOptions) run(ctx context.Context) error {
	config, err := o.config()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	serve := func(ctx context.Context) error { return bridge.Stdio(ctx, o.streams.In, o.streams.Out, config) }
	if o.listen != "" {
		serve = func(ctx context.Context) error { return o.overHTTP(ctx, config) }
	}
	err = untilSignals(ctx, o.streams, signals, "mcp", "the environment's session may still be open", serve)
	if errors.Is(err, context.Canceled) {
		return nil // told to end before the session was open
	}
	return toolFailure(o.url, err)
}

func (o *mcpOptions) config() (bridge.Config, error) {
	level, ok := logLevels[o.logLevel]
	switch {
	case !ok:
		return bridge.Config{}, usagef("--log-level: %q is none of debug, info, warn, error", o.logLevel)
	case o.idle < 0:
		return bridge.Config{}, usagef("--idle-timeout: %v is negative", o.idle)
	}
	// What is wrong with the flags is told before anything begins.
	probe, err := o.connection.client(o.url)
	if err != nil {
		return bridge.Config{}, err
	}
	if err := probe.Close(); err != nil {
		return bridge.Config{}, err
	}
	number, _, _ := strings.Cut(version(), " ")
	return bridge.Config{
		Dial:    func() (*mcp.Client, error) { return o.connection.client(o.url) },
		Version: number,
		Logger:  slog.New(slog.NewTextHandler(o.streams.Err, &slog.HandlerOptions{Level: level})),
	}, nil
}

func (o *mcpOptions) overHTTP(ctx context.Context, config bridge.Config) error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return usagef("--listen: %q is not host:port", o.listen)
	}
	l, err := envserver.Listen(ctx, o.listen)
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	return bridge.HTTP(ctx, l, o.idle, config, func() error {
		tcp, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return fmt.Errorf("mcp: %v is no TCP address", l.Addr())
		}
		if !tcp.IP.IsLoopback() {
			o.streams.note(fmt.Sprintf("oenv: warning: other machines can reach %s and call the tools\n", net.JoinHostPort(host, strconv.Itoa(tcp.Port))))
		}
		_, err := fmt.Fprintf(o.streams.Out, "serving MCP on %s/mcp\n", serverURL(host, tcp.Port))
		return err
	})
}
