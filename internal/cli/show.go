package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv/rollout/record"
)

type showOptions struct {
	streams *Streams
	json    bool
}

func newShow(s *Streams) *cobra.Command {
	o := &showOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "show FILE N",
		Short: "Show one episode on file, step by step",
		Long: `show prints episode N of a file, or session N of a recording: what was asked, what was
answered, and how each attempt ended. With --json it prints one object for each exchange,
and nothing is cut short.`,
		Example: `  oenv show run.jsonl 17
  oenv show run.jsonl 17 --json | jq .reply.observation`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("show: a file and the number of an episode are wanted, not %d arguments", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0], args[1]) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON, one object a line")
	return cmd
}

func (o *showOptions) run(path, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return usagef("show: %q is no number of an episode", text)
	}
	file, err := record.Load(path)
	if err != nil {
		return fmt.Errorf("show: %w", err)
	}
	e, err := file.Episode(n)
	if err != nil {
		return fmt.Errorf("show: %w", err)
	}
	var b bytes.Buffer
	if o.json {
		err = showJSON(&b, e)
	} else {
		err = o.show(&b, e)
	}
	if err != nil {
		return fmt.Errorf("show: %w", err)
	}
	_, err = b.WriteTo(o.streams.Out)
	return err
}

// shownExchange is an exchange as --json prints it.
type shownExchange struct {
	Exchange int             `json:"exchange"`
	Op       string          `json:"op"`
	Data     json.RawMessage `json:"data,omitempty"`
	Type     string          `json:"type"`
	Reply    json.RawMessage `json:"reply,omitempty"`
}

func showJSON(b *bytes.Buffer, e *record.Episode) error {
	enc := json.NewEncoder(b)
	for i := range e.Exchanges {
		x := &e.Exchanges[i]
		reply, err := x.Reply()
		if err != nil {
			return err
		}
		if err := enc.Encode(shownExchange{i, x.Op, jsonOrText(x.Data), x.Type, jsonOrText(reply)}); err != nil {
			return err
		}
	}
	return nil
}

// jsonOrText is a value as it is, and anything else as a string.
func jsonOrText(raw []byte) json.RawMessage {
	if raw == nil || json.Valid(raw) {
		return raw
	}
	text, err := json.Marshal(string(raw))
	if err != nil {
		return nil
	}
	return text
}

func (o *showOptions) show(b *bytes.Buffer, e *record.Episode) error {
	fmt.Fprintf(b, "%s", o.streams.paint(bold, fmt.Sprintf("episode %d", e.Index)))
	if e.Seed != nil {
		fmt.Fprintf(b, ", seed %d", *e.Seed)
	}
	if e.Ending != "" {
		fmt.Fprintf(b, ": %s", endingName(e.Ending))
		if e.Limit != "" {
			fmt.Fprintf(b, " by %s", e.Limit)
		}
		fmt.Fprintf(b, ", return %.6g in %d steps", e.Return, e.Steps)
	}
	b.WriteByte('\n')
	if e.Error != "" {
		fmt.Fprintln(b, tableIndent+o.streams.paint(red, oneLine(e.Error)))
	}
	for _, a := range e.Attempts {
		fmt.Fprintf(b, "%sattempt %d at %s: %s after %d steps", tableIndent, a.Number, oneLine(a.Server), endingName(a.Ending), a.Steps)
		if a.Error != "" && a.Error != e.Error {
			fmt.Fprintf(b, ": %s", oneLine(a.Error))
		}
		b.WriteByte('\n')
	}
	step := 0
	for i := range e.Exchanges {
		x := &e.Exchanges[i]
		label := x.Op
		switch x.Op {
		case "reset":
			step = 0
		case "step":
			step++
			label = fmt.Sprintf("step %d", step)
		case "":
			label = "unasked"
		}
		if err := o.exchange(b, label, x); err != nil {
			return err
		}
	}
	if c := e.Closed; c != nil {
		fmt.Fprintf(b, "closed by the %s, code %d %s\n", c.By, c.Code, oneLine(c.Reason))
	}
	return nil
}

func (o *showOptions) exchange(b *bytes.Buffer, label string, x *record.Exchange) error {
	width := max(minColumn, o.streams.width()-4)
	fmt.Fprintf(b, "\n%s %s\n", o.streams.paint(cyan, label), cut(oneLine(string(x.Data)), width-len(label)))
	reply, err := x.Reply()
	if err != nil {
		return err
	}
	res, err := x.Result()
	switch {
	case x.Type == "":
		fmt.Fprintln(b, tableIndent+o.streams.paint(red, "no answer"))
	case err != nil:
		fmt.Fprintln(b, tableIndent+o.streams.paint(red, x.Type)+" "+cut(oneLine(string(reply)), width))
	default:
		reward := "none"
		if res.Reward != nil {
			reward = fmt.Sprintf("%.6g", *res.Reward)
		}
		fmt.Fprintf(b, "%sreward %s, done %v\n", tableIndent, reward, res.Done)
		fmt.Fprintln(b, tableIndent+cut(oneLine(string(res.Observation)), width))
	}
	return nil
}

// cut shortens text to columns.
func cut(text string, columns int) string {
	runes := []rune(text)
	if columns < 1 || len(runes) <= columns {
		return text
	}
	return string(runes[:columns-1]) + "…"
}
