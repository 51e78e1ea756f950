package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

type toolsOptions struct {
	streams    *Streams
	connection toolConnection
	url        string
	json       bool
	schema     bool
}

func newTools(s *Streams) *cobra.Command {
	o := &toolsOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "tools URL",
		Short: "List the tools of an environment",
		Long: `tools asks an environment for its tools and prints a table of their names, arguments
and descriptions. An argument that may be left out has a question mark behind its name;
one behind its type means that null is allowed.

With --schema each tool is shown with its arguments as a table of fields, as inspect
shows an action, and with what it returns if it says so. With --json one JSON object is
printed, the answer to the protocol's tools/list: {"tools": […]}.`,
		Example: `  oenv tools http://localhost:8000
  oenv tools localhost:8000 --schema
  oenv tools localhost:8000 --json | jq '.tools[].name'`,
		Args:              oneURL,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			return untilInterrupt(cmd.Context(), o.run)
		},
	}
	o.connection.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	cmd.Flags().BoolVar(&o.schema, "schema", false, "print the arguments of each tool as a table")
	return cmd
}

func (o *toolsOptions) run(ctx context.Context) error {
	if o.json && o.schema {
		return usagef("--json and --schema exclude each other")
	}
	client, err := o.connection.client(o.url)
	if err != nil {
		return err
	}
	tools, err := client.ListTools(ctx)
	if err := errors.Join(err, client.Close()); err != nil {
		return toolFailure(client.BaseURL(), err)
	}
	var b bytes.Buffer
	switch {
	case o.json:
		if err := json.NewEncoder(&b).Encode(map[string]any{"tools": tools}); err != nil {
			return err
		}
	case o.schema:
		for i, tool := range tools {
			if i > 0 {
				b.WriteByte('\n')
			}
			o.describe(&b, tool)
		}
	default:
		o.table(&b, tools)
	}
	_, err = b.WriteTo(o.streams.Out)
	return err
}

func (o *toolsOptions) table(w *bytes.Buffer, tools []*sdk.Tool) {
	if len(tools) == 0 {
		fmt.Fprintln(w, "no tools")
		return
	}
	t := table{header: []string{"TOOL", "ARGUMENTS", "DESCRIPTION"}, limits: []int{32, 40, 0}}
	for _, tool := range tools {
		t.add(oneLine(tool.Name), argumentsText(tool), oneLine(summaryOf(tool)))
	}
	t.print(w, o.streams.width(), func(text string) string { return o.streams.paint(dim, text) })
}

// summaryOf is what there is to say of a tool in a line.
func summaryOf(tool *sdk.Tool) string {
	if tool.Description != "" {
		return firstParagraph(tool.Description)
	}
	return tool.Title
}

// argumentsText lists a tool's arguments: "a: integer, note?: string".
func argumentsText(tool *sdk.Tool) string {
	parsed, err := parseSchema(compact(tool.InputSchema))
	if err != nil {
		return "?"
	}
	root, _ := parsed.follow(parsed.root)
	if root == nil {
		return ""
	}
	v := &schemaView{schema: parsed}
	var texts []string
	for _, p := range root.Properties {
		name := oneLine(p.name)
		if !slices.Contains(root.Required, p.name) {
			name += "?"
		}
		texts = append(texts, name+": "+v.typeText(p.node, 0))
	}
	return strings.Join(texts, ", ")
}

// describe prints a tool with the fields of what it takes and returns.
func (o *toolsOptions) describe(w *bytes.Buffer, tool *sdk.Tool) {
	fmt.Fprintf(w, "%s\n", o.streams.paint(bold, oneLine(tool.Name)))
	for _, text := range wrap(oneLine(tool.Description), o.streams.width()-len(tableIndent)) {
		if text != "" {
			fmt.Fprintf(w, "%s%s\n", tableIndent, text)
		}
	}
	for _, part := range []struct {
		name   string
		schema any
	}{{"arguments", tool.InputSchema}, {"result", tool.OutputSchema}} {
		if part.schema != nil {
			fmt.Fprintf(w, "%s%s\n", tableIndent, part.name)
			printSchema(w, o.streams, compact(part.schema))
		}
	}
}
