package mcp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/mcp"
)

// newClient makes a client that is closed with the test.
func newClient(t *testing.T, url string, opts ...openenv.Option) *mcp.Client {
	t.Helper()
	c, err := mcp.New(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

var sum = openenv.Object{"a": 2, "b": 5}

// The published package's tools, in both modes.
func TestToolsOfThePythonServer(t *testing.T) {
	leak.Check(t)
	peer := peerproc.Start(t, "--env", "mcp", "--max-sessions", "32")
	for _, mode := range []openenv.Mode{openenv.ModeProduction, openenv.ModeSimulation} {
		t.Run(string(mode), func(t *testing.T) {
			toolsOfPythonServer(t, newClient(t, peer.URL(), openenv.WithMode(mode)))
		})
	}
}

func toolsOfPythonServer(t *testing.T, c *mcp.Client) {
	ctx := t.Context()
	t.Run("list", func(t *testing.T) {
		tools, err := c.ListTools(ctx)
		if err != nil || len(tools) != 2 || tools[0].Name != "add" || tools[1].Name != "fail" {
			t.Fatalf("%v, %v", tools, err)
		}
		if tools[0].Description != "Add two integers." || !strings.Contains(fmt.Sprint(tools[0].InputSchema), "integer") {
			t.Errorf("%+v", tools[0])
		}
		if c.Mode() == openenv.ModeProduction && tools[0].OutputSchema == nil {
			t.Error("the output schema was dropped")
		}
	})
	t.Run("one tool", func(t *testing.T) {
		if tool, err := c.GetTool(ctx, "add"); err != nil || tool.Name != "add" {
			t.Errorf("add: %v, %v", tool, err)
		}
		for name, want := range map[string]bool{"add": true, "nope": false} {
			if has, err := c.HasTool(ctx, name); err != nil || has != want {
				t.Errorf("HasTool(%s) = %v, %v", name, has, err)
			}
		}
		_, err := c.GetTool(ctx, "nope")
		_ = wantKind(t, err, mcp.KindToolNotFound)
	})
	t.Run("values", func(t *testing.T) {
		if v, err := c.CallTool(ctx, "add", sum); err != nil || v != 7.0 {
			t.Errorf("CallTool: %v, %v", v, err)
		}
		if v, err := mcp.Call[int](ctx, c, "add", struct{ A, B int }{1, 2}); err == nil {
			t.Errorf("names that differ in case: %v", v)
		}
		if v, err := mcp.Call[int](ctx, c, "add", sum); err != nil || v != 7 {
			t.Errorf("Call[int]: %v, %v", v, err)
		}
		r, err := c.CallToolResult(ctx, "add", sum)
		if err != nil || len(r.Content) != 1 || string(r.Data) != "7" || fmt.Sprint(r.StructuredContent) != "map[result:7]" || r.Reward != nil || r.Done {
			t.Errorf("CallToolResult: %+v, %v", r, err)
		}
		_, err = mcp.Call[[]string](ctx, c, "add", sum)
		if wrong, ok := errors.AsType[*openenv.DecodeError](err); !ok || wrong.Received != `"7"` {
			t.Errorf("another type: %v", err)
		}
	})
	t.Run("failures", func(t *testing.T) {
		for _, tt := range []struct {
			name, tool string
			args       any
			want       mcp.Kind
			text       string
		}{
			{"unknown tool", "nope", nil, mcp.KindToolNotFound, "Unknown tool: 'nope'"},
			{"a failing tool", "fail", openenv.Object{"why": "Unknown tool: me"}, mcp.KindExecution, "Unknown tool: me"},
			{"wrong arguments", "add", openenv.Object{"a": "x"}, mcp.KindInvalidArgs, "2 validation errors"},
			{"arguments that are no object", "add", 7, mcp.KindInvalidArgs, "not a JSON object"},
			{"arguments that are no JSON", "add", openenv.Object{"a": func() {}}, mcp.KindInvalidArgs, "func()"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				_, err := c.CallTool(ctx, tt.tool, tt.args)
				if tt.want == mcp.KindExecution && c.Mode() == openenv.ModeSimulation {
					tt.want = mcp.KindToolNotFound // the peer looks for the words anywhere
				}
				failed := wantKind(t, err, tt.want)
				if !strings.Contains(failed.Message, tt.text) || failed.Tool != tt.tool {
					t.Errorf("%+v", failed)
				}
			})
		}
		if v, err := c.CallTool(ctx, "add", sum); err != nil || v != 7.0 {
			t.Errorf("afterwards: %v, %v", v, err)
		}
	})
	t.Run("tools and the socket share the session", func(t *testing.T) {
		if _, err := c.Reset(ctx, openenv.EpisodeID("e-7")); err != nil {
			t.Fatal(err)
		}
		if v, err := c.CallTool(ctx, "add", sum); err != nil || v != 7.0 {
			t.Errorf("%v, %v", v, err)
		}
		if s, err := c.State(ctx); err != nil || s.EpisodeID != "e-7" {
			t.Errorf("%+v, %v", s, err)
		}
		if id := c.SessionID(); (id == "") == (c.Mode() == openenv.ModeProduction) {
			t.Errorf("session id %q", id)
		}
	})
	t.Run("many sessions at once", func(t *testing.T) {
		manySessions(t, c)
	})
}

func manySessions(t *testing.T, c *mcp.Client) {
	ctx := t.Context()
	var opening []*openenv.Future[*mcp.Client]
	for range 16 {
		opening = append(opening, c.Async().NewSession().Start(ctx))
	}
	children, err := openenv.AwaitAll(ctx, opening...)
	if err != nil {
		t.Fatal(err)
	}
	var calls []*openenv.Future[any]
	for _, child := range children {
		if child.Async().Sync() != child || child.Mode() != c.Mode() {
			t.Error("a child of another kind")
		}
		calls = append(calls, child.Async().CallTool("add", sum))
	}
	sums, err := openenv.AwaitAll(ctx, calls...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range sums {
		if v != 7.0 {
			t.Errorf("session %d: %v", i, v)
		}
	}
	_, err = children[0].CallTool(ctx, "add", sum)
	if err != nil {
		t.Errorf("blocking after async: %v", err)
	}
	for _, child := range children {
		if err := child.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A slot is free when Close has returned.
func TestOpenCallCloseOnOneSlotOfThePythonServer(t *testing.T) {
	leak.Check(t)
	peer := peerproc.Start(t, "--env", "mcp", "--max-sessions", "1")
	openCallClose(t, peer.URL())
}

func openCallClose(t *testing.T, url string) {
	t.Helper()
	for round := range 50 {
		err := func() error {
			c, err := mcp.New(url)
			if err != nil {
				return err
			}
			return openenv.Use(t.Context(), c, func(c *mcp.Client) error {
				_, err := c.CallTool(t.Context(), "add", sum)
				return err
			})
		}()
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

func wantKind(t *testing.T, err error, want mcp.Kind) *mcp.ToolError {
	t.Helper()
	failed, ok := errors.AsType[*mcp.ToolError](err)
	if !ok || failed.Kind != want {
		t.Fatalf("%v (%T), want kind %s", err, err, want)
	}
	return failed
}
