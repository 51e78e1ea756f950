package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/mcp"
)

type callOptions struct {
	streams    *Streams
	connection toolConnection
	url        string
	tool       string
	arguments  []string
	json       bool
}

func newCall(s *Streams) *cobra.Command {
	o := &callOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "call URL TOOL [key=value … | JSON]",
		Short: "Call a tool of an environment",
		Long: `call makes one call of a tool on a session of its own and prints its result.

The arguments are one JSON object, or key=value pairs whose values are read by the
tool's schema: where it wants a string, the characters as they are; where it wants
anything else, JSON. A value that does not fit is refused before anything is called.

The result is the tool's value: a string as it is, anything else as JSON. With --json
it is one object: {"tool": …, "data": the value, "result": the protocol's whole result,
"reward": …, "done": …}, or {"tool": …, "error": {"kind": …, "message": …}}.

With --mode simulation the call is the first step of a new episode, whose reward and
done follow the result.`,
		Example: `  oenv call http://localhost:8000 add a=2 b=5
  oenv call localhost:8000 search '{"query": "go", "limit": 3}' --json | jq .data
  oenv call localhost:8000 guess word=crane --mode simulation`,
		Args:              o.words,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url, o.tool, o.arguments = args[0], args[1], args[2:]
			return untilInterrupt(cmd.Context(), o.run)
		},
	}
	o.connection.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

func (o *callOptions) words(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("call: the server's URL is missing, such as http://localhost:8000")
	case len(args) == 1:
		return usagef(`call: the tool's name is missing ("oenv tools URL" lists them)`)
	}
	return nil
}

func (o *callOptions) run(ctx context.Context) error {
	parsed, err := parseArguments(o.arguments)
	if err != nil {
		return err
	}
	client, err := o.connection.client(o.url)
	if err != nil {
		return err
	}
	result, err := o.call(ctx, client, parsed)
	closed := client.Close()
	switch {
	case err == nil:
		return errors.Join(o.print(client, result), closed)
	case o.json && !isA[*usageError](err):
		return errors.Join(toolFailure(client.BaseURL(), err), o.printFailure(err), closed)
	}
	return errors.Join(toolFailure(client.BaseURL(), err), closed)
}

func (o *callOptions) call(ctx context.Context, client *mcp.Client, args arguments) (*mcp.Result, error) {
	if client.Mode() == openenv.ModeSimulation {
		if _, err := client.Reset(ctx); err != nil {
			return nil, err
		}
	}
	object := args.object
	if object == nil {
		tool, err := o.find(ctx, client)
		if err != nil {
			return nil, err
		}
		if object, err = args.typed(tool); err != nil {
			return nil, err
		}
	}
	return client.CallToolResult(ctx, o.tool, object)
}

// find looks the tool up, for its schema. One that is not there is told with those that
// are.
func (o *callOptions) find(ctx context.Context, client *mcp.Client) (*sdk.Tool, error) {
	tools, err := client.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range tools {
		if tool.Name == o.tool {
			return tool, nil
		}
		names = append(names, tool.Name)
	}
	return nil, &mcp.ToolError{
		Op: "call tool", Tool: o.tool, URL: client.BaseURL(), Kind: mcp.KindToolNotFound,
		Message: oneLine("there are " + strings.Join(names, ", ")),
	}
}

func (o *callOptions) print(client *mcp.Client, r *mcp.Result) error {
	simulation := client.Mode() == openenv.ModeSimulation
	if o.json {
		return (&jsonPrinter{o.streams}).print(struct {
			Tool   string              `json:"tool"`
			Data   json.RawMessage     `json:"data"`
			Result *sdk.CallToolResult `json:"result"`
			Reward *float64            `json:"reward"`
			Done   bool                `json:"done"`
		}{o.tool, r.Data, r.CallToolResult, r.Reward, r.Done})
	}
	var b bytes.Buffer
	o.value(&b, r)
	if simulation {
		reward := "none"
		if r.Reward != nil {
			reward = string(compact(*r.Reward))
		}
		p := &textPrinter{o.streams}
		fmt.Fprintf(&b, "%s\n%s\n", p.label("reward", reward), p.label("done", strconv.FormatBool(r.Done)))
	}
	_, err := b.WriteTo(o.streams.Out)
	return err
}

// value prints what the tool returned, or its content where that is no value.
func (o *callOptions) value(w *bytes.Buffer, r *mcp.Result) {
	if r.Data == nil {
		for _, block := range r.Content {
			if text, ok := block.(*sdk.TextContent); ok {
				o.text(w, text.Text)
			} else {
				fmt.Fprintf(w, "%s\n", compact(block))
			}
		}
		return
	}
	var text string
	if json.Unmarshal(r.Data, &text) == nil && string(r.Data) != "null" {
		o.text(w, text)
		return
	}
	fmt.Fprintf(w, "%s\n", compact(r.Data))
}

// text prints a string; on a terminal without what could steer it.
func (o *callOptions) text(w *bytes.Buffer, text string) {
	if o.streams.OutTerminal {
		text = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				return '?'
			}
			return r
		}, text)
	}
	w.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		w.WriteByte('\n')
	}
}

func (o *callOptions) printFailure(err error) error {
	failure := struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	}{describe("call", err).Code, err.Error()}
	if refused, ok := errors.AsType[*mcp.ToolError](err); ok {
		failure.Kind, failure.Message = string(refused.Kind), refused.Message
	}
	return (&jsonPrinter{o.streams}).print(struct {
		Tool  string `json:"tool"`
		Error any    `json:"error"`
	}{o.tool, failure})
}
