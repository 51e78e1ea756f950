package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv"
)

type playOptions struct {
	streams        *Streams
	connection     connection
	url            string
	messageTimeout time.Duration
	resume         bool
	json           bool
}

const playLong = `play opens a session and drives its environment line by line:

%s
On a terminal there is a prompt with a history; a mistake is shown and the session
goes on. Ctrl-C ends a step, and at the prompt it leaves.

When the input or the output is no terminal, or with --json, every line is answered
with one JSON object on standard output: {"op": …, "observation": …, "reward": …,
"done": …, "metadata": …}, {"op": "state", "state": …} or {"op": …, "error": {"code":
…, "message": …, "fields": [{"loc": …, "type": …, "msg": …}]}}. A code is the
server's, or one of these:

  %s

The exit code is then that of the first line that failed, 0 if none did.`

func newPlay(s *Streams) *cobra.Command {
	o := &playOptions{streams: s}
	var forms strings.Builder
	for _, row := range accepted {
		fmt.Fprintf(&forms, "  %-19s  %s\n", row[0], row[1])
	}
	cmd := &cobra.Command{
		Use:   "play URL",
		Short: "Drive an environment line by line",
		Long:  fmt.Sprintf(playLong, forms.String(), failureCodes),
		Example: `  oenv play http://localhost:8000
  echo '{"message": "hi"}' | oenv play localhost:8000
  oenv play localhost:8000 --json < episode.txt | jq .reward`,
		Args:              oneURL,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			return o.run(cmd.Context())
		},
	}
	o.connection.register(cmd.Flags())
	cmd.Flags().DurationVar(&o.messageTimeout, "message-timeout", openenv.DefaultMessageTimeout, "longest wait for a reply, 0 for no limit")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "come back to the episode when the connection is lost; inspect shows what the server can do")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a line, on a terminal too")
	return cmd
}

func (o *playOptions) run(ctx context.Context) error {
	if o.messageTimeout < 0 {
		return usagef("--message-timeout: %v is negative", o.messageTimeout)
	}
	opts := []openenv.Option{openenv.WithMessageTimeout(o.messageTimeout)}
	if o.resume {
		opts = append(opts, openenv.WithResume(openenv.Resume{}))
	}
	client, err := o.connection.client(o.url, opts...)
	if err != nil {
		return err
	}
	p, err := o.player(client)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	defer p.lines.restore()

	// What Ctrl-C ends is whatever runs at the moment, see interruptible. Registering
	// here, too, keeps the process alive in between.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	defer signal.Stop(ignored)

	return openenv.Use(ctx, client, func(*openenv.GenericClient) error { return p.play(ctx) })
}

// player is one run of play.
type player struct {
	client      *openenv.GenericClient
	out         io.Writer
	lines       *lines
	printer     playPrinter
	interactive bool
	greeting    string
}

// player chooses how to read and print: for people when there is a terminal at both
// ends, for programs otherwise.
func (o *playOptions) player(client *openenv.GenericClient) (*player, error) {
	p := &player{client: client, out: o.streams.Out}
	if o.json || !o.streams.InTerminal || !o.streams.OutTerminal {
		p.lines, p.printer = plainLines(o.streams.In), &jsonPrinter{o.streams}
		return p, nil
	}
	edited, err := editedLines(o.streams)
	if err != nil {
		return nil, fmt.Errorf("play: terminal: %w", err)
	}
	p.lines, p.printer, p.interactive = edited, &textPrinter{o.streams}, true
	p.greeting = fmt.Sprintf("connected to %s; help shows what a line may be\n", client.BaseURL())
	return p, nil
}

// interruptible runs f with a ctx that Ctrl-C ends.
func interruptible(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// linesError is what became of input that nobody watched: some of it failed.
type linesError struct {
	failed, total, first int
	err                  error // of the first line that failed
}

func (e *linesError) Error() string {
	return fmt.Sprintf("%d of %d lines failed, first line %d: %v", e.failed, e.total, e.first, e.err)
}
func (e *linesError) Unwrap() error { return e.err }

// play connects and answers line after line, until the end of the input.
func (p *player) play(ctx context.Context) error {
	if err := interruptible(ctx, p.client.Connect); err != nil {
		return err
	}
	if _, err := io.WriteString(p.out, p.greeting); err != nil {
		return err
	}
	var outcome linesError
	for number := 1; ; number++ {
		line, err := p.next(ctx)
		if err != nil && p.interactive {
			_, _ = io.WriteString(p.out, "\n") // the prompt stands in this line
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		quit, err := p.answer(ctx, line, number, &outcome)
		if err != nil {
			return err
		}
		if quit {
			break
		}
	}
	if outcome.failed > 0 && !p.interactive {
		return &outcome
	}
	return nil
}

func (p *player) next(ctx context.Context) (line string, err error) {
	err = interruptible(ctx, func(ctx context.Context) error {
		line, err = p.lines.next(ctx)
		return err
	})
	return line, err
}

// answer does what one line asks for and shows what came of it. Its own error ends
// play.
func (p *player) answer(ctx context.Context, line string, number int, outcome *linesError) (quit bool, err error) {
	req, err := parseLine(line)
	if err == nil && req.op == opQuit {
		return true, nil
	}
	outcome.total++
	var show func() error
	if err == nil {
		err = interruptible(ctx, func(ctx context.Context) error {
			show, err = p.do(ctx, req)
			return err
		})
	}
	if err == nil {
		return false, show()
	}
	if ctx.Err() != nil {
		return false, errInterrupted
	}
	if outcome.failed++; outcome.failed == 1 {
		outcome.first, outcome.err = number, err
	}
	return false, p.printer.failure(req.op, describe(req.op, err))
}

// do carries out a request and returns how to show its result.
func (p *player) do(ctx context.Context, req request) (show func() error, err error) {
	switch req.op {
	case opReset:
		var params []openenv.ResetParam
		for _, given := range req.params {
			params = append(params, openenv.Param(given.key, given.value))
		}
		res, err := p.client.Reset(ctx, params...)
		return func() error { return p.printer.result(opReset, res) }, err
	case opStep:
		res, err := p.client.Step(ctx, req.action)
		return func() error { return p.printer.result(opStep, res) }, err
	case opState:
		state, err := p.client.State(ctx)
		return func() error { return p.printer.state(state) }, err
	}
	return p.printer.help, nil
}
