package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/provider"
)

// Client is a client of a tool environment: an *openenv.Client with verbs for tools. It
// has the same two faces, the same rules and the same options.
//
// In production mode, the default, tools are called over JSON-RPC on a session that was
// made over HTTP; Reset, Step and State of the same session go over its socket. With
// openenv.WithMode(openenv.ModeSimulation) a tool call is a step, and its [Result] has
// reward and done. The variable OPENENV_CLIENT_MODE is not looked at: like the Python
// client, which refuses every other mode, this one is a production client unless the
// program says otherwise.
//
// A call is bounded by openenv.WithMessageTimeout. Failures are *[ToolError]s, except
// that the end of the caller's own ctx, openenv.ErrClosed and an *openenv.ExecModeError
// are returned as they are.
type Client struct {
	*openenv.Client[Action, Observation, openenv.State]

	async Async

	mu    sync.Mutex
	tools []*sdk.Tool // nil: not known
}

// New makes a client of the server at baseURL. It does no I/O. See [openenv.New].
func New(baseURL string, opts ...openenv.Option) (*Client, error) {
	opts, err := withMode(opts)
	if err != nil {
		return nil, err
	}
	c, err := openenv.New(Spec, baseURL, opts...)
	if err != nil {
		return nil, err
	}
	return wrap(c), nil
}

// FromProvider makes a client whose server p starts, and connects it. See
// [openenv.FromProvider].
func FromProvider(ctx context.Context, p provider.Provider, opts ...openenv.Option) (*Client, error) {
	opts, err := withMode(opts)
	if err != nil {
		return nil, err
	}
	c, err := openenv.FromProvider(ctx, Spec, p, opts...)
	if err != nil {
		return nil, err
	}
	return wrap(c), nil
}

// withMode puts the default before the options, and what the mode needs behind them.
func withMode(opts []openenv.Option) ([]openenv.Option, error) {
	opts = slices.Concat([]openenv.Option{openenv.WithMode(openenv.ModeProduction)}, opts)
	mode, err := openenv.ModeOf(opts...)
	if err != nil {
		return nil, fmt.Errorf("mcp.New: %w", err)
	}
	if mode == openenv.ModeProduction {
		opts = append(opts, openenv.WithManagedSession())
	}
	return opts, nil
}

func wrap(inner *openenv.Client[Action, Observation, openenv.State]) *Client {
	c := &Client{Client: inner}
	c.async = Async{Async: inner.Async(), c: c}
	return c
}

// NewSession opens another session on the same server. See [openenv.Client.NewSession].
func (c *Client) NewSession(ctx context.Context) (*Client, error) {
	child, err := c.Client.NewSession(ctx)
	if err != nil {
		return nil, err
	}
	return wrap(child), nil
}

// Async is the client's other face, always the same pointer.
func (c *Client) Async() *Async { return &c.async }

// ListTools returns the tools of the environment. The first answer is kept, a failure
// is not; see [Client.RefreshTools]. What is returned is shared: it must not be changed.
// An environment without tools is an error that matches [ErrNoTools].
func (c *Client) ListTools(ctx context.Context) ([]*sdk.Tool, error) {
	c.mu.Lock()
	known := c.tools
	c.mu.Unlock()
	if known != nil {
		return slices.Clone(known), nil
	}
	return c.RefreshTools(ctx)
}

// RefreshTools asks the server for its tools and keeps the answer for ListTools.
func (c *Client) RefreshTools(ctx context.Context) ([]*sdk.Tool, error) {
	list := c.listByRPC
	if c.Mode() == openenv.ModeSimulation {
		list = c.listByStep
	}
	tools, err := list(ctx)
	if err != nil {
		return nil, c.failure("list tools", "", err)
	}
	c.mu.Lock()
	c.tools = tools
	c.mu.Unlock()
	return slices.Clone(tools), nil
}

// GetTool returns the tool of that name. One that is not there is a *[ToolError] of
// [KindToolNotFound].
func (c *Client) GetTool(ctx context.Context, name string) (*sdk.Tool, error) {
	tools, err := c.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(tools, func(t *sdk.Tool) bool { return t.Name == name }); i >= 0 {
		return tools[i], nil
	}
	return nil, &ToolError{Op: "get tool", Tool: name, URL: c.BaseURL(), Kind: KindToolNotFound, Message: "no tool of that name"}
}

// HasTool reports whether there is a tool of that name.
func (c *Client) HasTool(ctx context.Context, name string) (bool, error) {
	_, err := c.GetTool(ctx, name)
	if failed, ok := errors.AsType[*ToolError](err); ok && failed.Op == "get tool" {
		return false, nil
	}
	return err == nil, err
}
