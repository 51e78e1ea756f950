package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/recorder"
	"github.com/openenv-go/openenv/rollout/standin"
)

// listening is the flags of the commands that stand in for a server.
type listening struct {
	streams *Streams
	listen  string
	json    bool
}

func (l *listening) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.listen, "listen", "127.0.0.1:8000", "serve on this `address`; port 0 is any that is free")
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON, one object a line")
}

// endable is a handler with sessions to end.
type endable interface {
	http.Handler
	Shutdown(ctx context.Context) error
}

// serve serves until a signal, or until ctx ends.
func (l *listening) serve(ctx context.Context, command, what string, h endable) error {
	if _, _, err := net.SplitHostPort(l.listen); err != nil {
		return usagef("--listen: %q is not host:port", l.listen)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	listener, err := envserver.Listen(ctx, l.listen)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("%s: %v is no TCP address", command, listener.Addr())
	}
	host, _, _ := net.SplitHostPort(l.listen) // it was split above
	if err := l.announce(what, serverURL(host, tcp.Port)); err != nil {
		return errors.Join(err, listener.Close())
	}
	return untilSignals(ctx, l.streams, signals, command, "sessions that were open are not on file", func(ctx context.Context) error {
		hs := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		served := make(chan error, 1)
		go func() { served <- hs.Serve(listener) }()
		select {
		case err := <-served:
			return errors.Join(err, h.Shutdown(context.WithoutCancel(ctx)))
		case <-ctx.Done():
		}
		err := errors.Join(h.Shutdown(context.WithoutCancel(ctx)), hs.Close())
		<-served //nolint:errcheck // it was told to end
		return err
	})
}

func (l *listening) announce(what, url string) error {
	if l.json {
		return json.NewEncoder(l.streams.Out).Encode(map[string]any{"url": url, "what": what})
	}
	_, err := fmt.Fprintf(l.streams.Out, "serving on %s (%s)\n", url, what)
	return err
}

type recordOptions struct {
	listening

	out string
}

func newRecord(s *Streams) *cobra.Command {
	o := &recordOptions{listening: listening{streams: s}}
	cmd := &cobra.Command{
		Use:   "record UPSTREAM --out FILE",
		Short: "Stand between any client and a server, and put their sessions on file",
		Long: `record forwards everything that clients send it to the server at UPSTREAM, messages and HTTP
requests unchanged, and puts every session on file when it ends. "oenv stand-in" then
plays the server; "oenv show" and "oenv replay" read the file, too.

It serves until Ctrl-C or SIGTERM, which ends the sessions; then it prints how many there
were and how long messages were held up.`,
		Example: `  oenv record http://localhost:8000 --listen localhost:9000 --out session.jsonl`,
		Args:    oneURL,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.register(cmd)
	cmd.Flags().StringVar(&o.out, "out", "", "put the sessions into this `file`, which must not exist")
	return cmd
}

func (o *recordOptions) run(ctx context.Context, upstream string) error {
	if o.out == "" {
		return usagef("record: --out is missing, the file for the sessions")
	}
	base, err := netx.ParseBase(upstream)
	if err != nil {
		return usagef("record: %v", err)
	}
	out, err := record.Create(o.out, record.Header{Kind: record.KindRecording, Source: base.String()}, record.DefaultObservationLimit)
	if err != nil {
		return err
	}
	r, err := recorder.New(upstream, out)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	err = o.serve(ctx, "record", "recording "+base.String(), r)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	added := r.Added()
	if o.json {
		return json.NewEncoder(o.streams.Out).Encode(map[string]any{"sessions": r.Sessions(), "added_ms": added})
	}
	_, err = fmt.Fprintf(o.streams.Out, "%d sessions; %d messages were held up for %.3g ms (median), %.3g ms (90 %%)\n", r.Sessions(), added.Count, added.Median, added.P90)
	return err
}

type standInOptions struct{ listening }

func newStandIn(s *Streams) *cobra.Command {
	o := &standInOptions{listening{streams: s}}
	cmd := &cobra.Command{
		Use:   "stand-in FILE",
		Short: "Serve a record as if it were the environment",
		Long: `stand-in answers what was asked in the sessions or episodes of a file as it was answered
then, frame for frame. An action off the script gets an error that names the expected
one. It serves until Ctrl-C or SIGTERM.`,
		Example: `  oenv stand-in session.jsonl --listen localhost:8000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("stand-in: one file is wanted, not %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := record.Load(args[0])
			if err != nil {
				return fmt.Errorf("stand-in: %w", err)
			}
			return o.serve(cmd.Context(), "stand-in", fmt.Sprintf("standing in with %d sessions of %s", len(file.Episodes), oneLine(args[0])), standin.New(file))
		},
	}
	o.register(cmd)
	return cmd
}
