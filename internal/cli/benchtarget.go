package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/catalog"
	"github.com/openenv-go/openenv/envserver"
)

// benchTarget is the server that is measured.
type benchTarget struct {
	url    string
	header http.Header
	action json.RawMessage
	served chan error         // of a server in this process, nil for another
	stop   context.CancelFunc // ends it
}

func (t *benchTarget) embedded() bool { return t.served != nil }

// close ends a server in this process.
func (t *benchTarget) close() error {
	if !t.embedded() {
		return nil
	}
	t.stop()
	return <-t.served
}

// open starts the server, if it is one that ships, and finds the action of a step.
func (o *benchOptions) open(ctx context.Context) (*benchTarget, error) {
	header, err := o.connection.header()
	if err != nil {
		return nil, err
	}
	t := &benchTarget{url: o.target, header: header}
	if isName(o.target) {
		if err := t.serve(ctx, o.target, slices.Max(o.batches), o.streams); err != nil {
			return nil, err
		}
	}
	if t.action, err = o.chooseAction(ctx, t); err != nil {
		_ = t.close() // the first error counts
		return nil, err
	}
	return t, nil
}

// isName tells the name of an environment from an address, which has at least one of
// these. "localhost" alone is the name of no environment.
func isName(target string) bool { return !strings.ContainsAny(target, ":/.") }

// serve serves an environment that ships on a loopback port of this process, for twice
// as many sessions as are to come: those of one batch may not all have left when the
// next begins.
func (t *benchTarget) serve(ctx context.Context, name string, sessions int, s *Streams) error {
	entry, err := catalog.Find(name)
	if err != nil {
		return usagef("bench: %w", err)
	}
	srv, err := entry.New(envserver.WithMaxSessions(2*sessions),
		envserver.WithLogger(slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	l, err := envserver.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	t.url = "http://" + l.Addr().String()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // it ends after its clients
	t.served, t.stop = make(chan error, 1), stop
	go func() { t.served <- srv.Serve(serving, l) }()
	return nil
}

// chooseAction makes the action that the flags and the server's schema ask for.
func (o *benchOptions) chooseAction(ctx context.Context, t *benchTarget) (json.RawMessage, error) {
	if o.action != "" {
		var object map[string]any
		if err := json.Unmarshal([]byte(o.action), &object); err != nil || object == nil {
			return nil, usagef("--action: not a JSON object")
		}
		return json.RawMessage(o.action), nil
	}
	client, err := openenv.New(openenv.Generic, t.url, openenv.WithHeaders(t.header), openenv.WithMessageTimeout(o.timeout))
	if err != nil {
		return nil, usagef("bench: %s", strings.TrimPrefix(err.Error(), "openenv.New: "))
	}
	var schema openenv.Schema
	err = openenv.Use(ctx, client, func(client *openenv.GenericClient) (err error) {
		schema, err = client.Schema(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return o.fitAction(schema.Action)
}

// fitAction fills the fields that bench knows of an action's schema.
func (o *benchOptions) fitAction(schema json.RawMessage) (json.RawMessage, error) {
	var shape struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	_ = json.Unmarshal(schema, &shape) // a schema of another kind has no field that is known
	has := func(name string) bool { _, ok := shape.Properties[name]; return ok }
	action := make(map[string]any)
	if has("message") {
		action["message"] = strings.Repeat("x", o.payload)
	} else if o.changed("payload") {
		return nil, usagef(`--payload: the environment's actions have no field "message"`)
	}
	if has("wait_s") {
		action["wait_s"] = o.wait.Seconds()
	} else if o.changed("wait") {
		return nil, usagef(`--wait: the environment's actions have no field "wait_s"`)
	}
	for _, name := range shape.Required {
		if _, ok := action[name]; !ok && o.steps > 0 {
			return nil, usagef("bench: the environment's actions need %q: give --action", name)
		}
	}
	return json.Marshal(action)
}
