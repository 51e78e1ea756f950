package mcp_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

// The client of this package on an environment of this package, in both modes and with
// numbered requests.
func TestToolsOfTheGoServer(t *testing.T) {
	leak.Check(t)
	srv := newToolbox().serve(t, []mcp.EnvironmentOption{mcp.WithReward(func(_ context.Context, call mcp.StepCall) (*float64, bool) {
		reward := 0.5
		return &reward, call.Tool == "point"
	})}, envserver.WithMaxSessions(32))
	for _, tt := range []struct {
		name string
		opts []openenv.Option
	}{
		{"production", nil},
		{"simulation", []openenv.Option{openenv.WithMode(openenv.ModeSimulation)}},
		{"production with numbered requests", []openenv.Option{openenv.WithResume(openenv.Resume{})}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			toolsOfGoServer(t, newClient(t, srv.URL(), tt.opts...))
		})
	}
}

func toolsOfGoServer(t *testing.T, c *mcp.Client) {
	ctx := t.Context()
	tool, err := c.GetTool(ctx, "add")
	if err != nil || tool.Description != "Add two integers." {
		t.Fatalf("%+v, %v", tool, err)
	}
	if v, err := mcp.Call[int](ctx, c, "add", sum); err != nil || v != 7 {
		t.Errorf("add: %v, %v", v, err)
	}
	for n := 1; n <= 3; n++ {
		if v, err := mcp.Call[int](ctx, c, "inc", nil); err != nil || v != n {
			t.Errorf("inc: %v, %v: the session keeps no state", v, err)
		}
	}
	if v, err := mcp.Call[point](ctx, c, "point", point{X: 1 << 30, Y: "é"}); err != nil || v.X != 1<<30 || v.Y != "é" {
		t.Errorf("point: %+v, %v", v, err)
	}
	if v, err := c.CallTool(ctx, "raw", openenv.Object{"n": 1}); err != nil || v != `{"n":1}` {
		t.Errorf("raw: %v, %v", v, err)
	}
	for _, failing := range []struct {
		tool string
		args any
		want mcp.Kind
		text string
	}{
		{"nope", nil, mcp.KindToolNotFound, "nope"},
		{"fail", openenv.Object{"why": "1 validation error for call[x]"}, mcp.KindExecution, "1 validation error"},
		{"add", openenv.Object{"a": "x"}, mcp.KindInvalidArgs, "a"},
		{"boom", nil, mcp.KindExecution, "kaboom"},
	} {
		_, err := c.CallTool(ctx, failing.tool, failing.args)
		if failed := wantKind(t, err, failing.want); !strings.Contains(failed.Message, failing.text) {
			t.Errorf("%s: %+v", failing.tool, failed)
		}
	}
	result, err := c.CallToolResult(ctx, "point", point{X: 1})
	if err != nil {
		t.Fatal(err)
	}
	if simulated := c.Mode() == openenv.ModeSimulation; result.Done != simulated || (result.Reward != nil) != simulated {
		t.Errorf("reward %v, done %v", result.Reward, result.Done)
	}
}

func TestOpenCallCloseOnOneSlotOfTheGoServer(t *testing.T) {
	leak.Check(t)
	srv := newToolbox().serve(t, nil, envserver.WithMaxSessions(1))
	openCallClose(t, srv.URL())
}

// The kind of a limit that the server keeps is known, too.
func TestServersLimitOfACall(t *testing.T) {
	leak.Check(t)
	srv := newToolbox().serve(t, []mcp.EnvironmentOption{mcp.WithCallTimeout(1)})
	c := newClient(t, srv.URL())
	_, err := c.CallTool(t.Context(), "slow", wait{Ms: 60000})
	_ = wantKind(t, err, mcp.KindTimeout)
}

// A caller that leaves ends the handler's work; the session goes on.
func TestCancelledCallEndsTheHandler(t *testing.T) {
	leak.Check(t)
	for _, opts := range [][]openenv.Option{nil, {openenv.WithResume(openenv.Resume{})}} {
		box := newToolbox()
		c := newClient(t, box.serve(t, nil).URL(), opts...)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-box.started; cancel() }()
		if _, err := c.CallTool(ctx, "slow", wait{Ms: 60000}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if cause := <-box.causes; cause == nil {
			t.Error("the handler's ctx ended without a cause")
		}
		if v, err := c.CallTool(t.Context(), "add", sum); err != nil || v != 7.0 {
			t.Errorf("afterwards: %v, %v", v, err)
		}
	}
}

// An environment without tools is told from one whose list failed.
func TestEnvironmentWithoutTools(t *testing.T) {
	leak.Check(t)
	plain, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(4))
	if err != nil {
		t.Fatal(err)
	}
	srv := openenvtest.ServeLoopback(t, plain)
	for _, mode := range []openenv.Mode{openenv.ModeProduction, openenv.ModeSimulation} {
		c := newClient(t, srv.URL(), openenv.WithMode(mode))
		if _, err := c.ListTools(t.Context()); !errors.Is(err, mcp.ErrNoTools) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
