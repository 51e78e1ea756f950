package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv"
)

type inspectOptions struct {
	streams    *Streams
	connection connection
	url        string
	timeout    time.Duration
	noSession  bool
	json       bool
}

func newInspect(s *Streams) *cobra.Command {
	o := &inspectOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "inspect URL",
		Short: "Show what a server says of itself",
		Long: `inspect asks a server for its health, its metadata and its schemas and prints them,
the schemas as tables of fields. In a type, "?" means that null is allowed too; a
field's path shows where it is: "a.b" inside an object, "a[].b" inside the items of a
list, "a.*.b" inside the values of a map, "a<T>.b" inside the alternative T.

It also makes a session and ends it again, to find out whether an episode survives the
loss of its socket, as with "oenv play --resume". That makes an environment on the
server; --no-session leaves it out.

What the server does not offer is shown as missing, and is no failure as long as
there is something.`,
		Example: `  oenv inspect http://localhost:8000
  oenv inspect https://example.org/env --token "$TOKEN"
  oenv inspect localhost:8000 --json | jq .schema.action`,
		Args:              oneURL,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			return untilInterrupt(cmd.Context(), o.run)
		},
	}
	o.connection.register(cmd.Flags())
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Second, "longest wait for an answer, 0 for no limit")
	cmd.Flags().BoolVar(&o.noSession, "no-session", false, "make no session")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	return cmd
}

// report is what a server said; as JSON it is what --json prints. A part that is
// nil is in Missing or in Errors.
type report struct {
	URL      string            `json:"url"`
	Health   *openenv.Health   `json:"health"`
	Metadata *openenv.Metadata `json:"metadata"`
	Schema   *openenv.Schema   `json:"schema"`
	Resume   *resumeReport     `json:"resume,omitempty"`
	Missing  []string          `json:"missing,omitempty"`
	Errors   map[string]string `json:"errors,omitempty"`
}

func (o *inspectOptions) run(ctx context.Context) error {
	if o.timeout < 0 {
		return usagef("--timeout: %v is negative", o.timeout)
	}
	client, err := o.connection.client(o.url, openenv.WithMessageTimeout(o.timeout))
	if err != nil {
		return err
	}
	return openenv.Use(ctx, client, func(client *openenv.GenericClient) error {
		rep, err := ask(ctx, client)
		if rep == nil {
			return err
		}
		if !o.noSession {
			rep.Resume = askResume(ctx, client)
		}
		if o.json {
			return errors.Join(json.NewEncoder(o.streams.Out).Encode(rep), err)
		}
		return errors.Join(o.print(rep), err)
	})
}

// ask makes the three calls. When none has an answer there is no report and the
// error is that of the first; an error beside a report is of a part that failed.
func ask(ctx context.Context, client *openenv.GenericClient) (*report, error) {
	rep := &report{URL: client.BaseURL()}
	parts := []string{"health", "metadata", "schema"}
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	wg.Go(func() { rep.Health, errs[0] = pointer(client.Health(ctx)) })
	wg.Go(func() { rep.Metadata, errs[1] = pointer(client.Metadata(ctx)) })
	wg.Go(func() { rep.Schema, errs[2] = pointer(client.Schema(ctx)) })
	wg.Wait()

	var failed error
	answers := 0
	for i, err := range errs {
		switch {
		case err == nil:
			answers++
		case isMissing(err):
			rep.Missing = append(rep.Missing, parts[i])
		default:
			if rep.Errors == nil {
				rep.Errors = make(map[string]string)
			}
			rep.Errors[parts[i]] = oneLine(err.Error())
			if failed == nil {
				failed = err
			}
		}
	}
	switch {
	case answers > 0 && failed != nil:
		// The server was reached, whatever became of one call.
		return rep, errors.New(failed.Error())
	case answers > 0:
		return rep, nil
	case failed != nil:
		return nil, failed
	}
	return nil, fmt.Errorf("no OpenEnv server at %s: it has neither health nor metadata nor schema", rep.URL)
}

func pointer[T any](value T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &value, nil
}

// isMissing tells a part that the server does not have from one that failed.
func isMissing(err error) bool {
	connect, ok := errors.AsType[*openenv.ConnectError](err)
	return ok && (connect.Status == http.StatusNotFound || connect.Status == http.StatusNotImplemented)
}

// print writes the report for people.
func (o *inspectOptions) print(rep *report) error {
	var b bytes.Buffer
	o.summary(&b, rep)
	o.resume(&b, rep.Resume)
	switch {
	case rep.Schema != nil:
		o.schemas(&b, rep.Schema)
	default:
		o.absent(&b, rep, "schema")
	}
	_, err := b.WriteTo(o.streams.Out)
	return err
}

const labelWidth = 13

func (o *inspectOptions) line(w *bytes.Buffer, label, value string) {
	if value != "" {
		fmt.Fprintf(w, "%s%s\n", o.streams.paint(bold, fmt.Sprintf("%-*s", labelWidth, label)), value)
	}
}

// absent says why there is nothing to show of a part.
func (o *inspectOptions) absent(w *bytes.Buffer, rep *report, part string) {
	text := "missing: the server does not offer it"
	if failure, ok := rep.Errors[part]; ok {
		text = failure
	}
	o.line(w, part, o.streams.paint(red, text))
}

func (o *inspectOptions) summary(w *bytes.Buffer, rep *report) {
	o.line(w, "server", oneLine(rep.URL))
	if rep.Health == nil {
		o.absent(w, rep, "health")
	} else {
		o.line(w, "health", o.health(oneLine(rep.Health.Status)))
	}
	m := rep.Metadata
	if m == nil {
		o.absent(w, rep, "metadata")
		return
	}
	o.line(w, "environment", oneLine(m.Name+" "+m.Version))
	o.paragraph(w, "description", m.Description)
	o.line(w, "author", oneLine(m.Author))
	o.line(w, "documentation", oneLine(m.DocumentationURL))
	if m.ReadmeContent != "" {
		o.line(w, "readme", fmt.Sprintf("%d bytes, printed by --json", len(m.ReadmeContent)))
	}
}

// paragraph prints a text that may need several lines.
func (o *inspectOptions) paragraph(w *bytes.Buffer, label, text string) {
	for i, line := range wrap(oneLine(text), max(minColumn, o.streams.width()-labelWidth)) {
		o.line(w, map[bool]string{true: label}[i == 0], line)
	}
}

func (o *inspectOptions) health(status string) string {
	switch status {
	case "":
		return "answers, with no status"
	case "healthy":
		return o.streams.paint(green, status)
	}
	return o.streams.paint(red, status)
}

// schemas prints a table each; that of a reset's observation only where it differs.
func (o *inspectOptions) schemas(w *bytes.Buffer, s *openenv.Schema) {
	for _, part := range []struct {
		name     string
		raw      json.RawMessage
		optional bool
	}{
		{"action", s.Action, false},
		{"observation", s.Observation, false},
		{"reset observation", s.ResetObservation, true},
		{"state", s.State, false},
	} {
		absent := len(part.raw) == 0 || string(part.raw) == "null"
		if absent && part.optional || part.optional && bytes.Equal(part.raw, s.Observation) {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", o.streams.paint(bold, part.name+titleOf(part.raw)))
		if absent {
			fmt.Fprintln(w, "  missing: the server does not describe it")
			continue
		}
		printSchema(w, o.streams, part.raw)
	}
}

// titleOf is the name that a schema gives itself, to follow another word.
func titleOf(raw json.RawMessage) string {
	var named struct {
		Title string `json:"title"`
	}
	if json.Unmarshal(raw, &named) != nil || named.Title == "" {
		return ""
	}
	return " " + oneLine(named.Title)
}
