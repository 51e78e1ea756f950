package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
)

// Async is the second face of a [Client]: the same verbs, described.
type Async struct {
	*openenv.Async[Action, Observation, openenv.State]

	c *Client
}

// Sync leads back to the client, always the same pointer.
func (a *Async) Sync() *Client { return a.c }

// NewSession describes [Client.NewSession]; any number may run in parallel.
func (a *Async) NewSession() *openenv.Future[*Client] { return openenv.Lazy(a.c.NewSession) }

// ListTools describes [Client.ListTools].
func (a *Async) ListTools() *openenv.Future[[]*sdk.Tool] { return openenv.Defer(a.c, a.c.ListTools) }

// GetTool describes [Client.GetTool].
func (a *Async) GetTool(name string) *openenv.Future[*sdk.Tool] {
	return openenv.Defer(a.c, func(ctx context.Context) (*sdk.Tool, error) { return a.c.GetTool(ctx, name) })
}

// HasTool describes [Client.HasTool].
func (a *Async) HasTool(name string) *openenv.Future[bool] {
	return openenv.Defer(a.c, func(ctx context.Context) (bool, error) { return a.c.HasTool(ctx, name) })
}

// CallTool describes [Client.CallTool]. The arguments are encoded now, so that the
// caller may reuse them.
func (a *Async) CallTool(name string, args any) *openenv.Future[any] {
	encoded, invalid := encodeArguments(args)
	return openenv.Defer(a.c, func(ctx context.Context) (any, error) {
		if invalid != nil {
			return nil, a.c.invalid(name, invalid)
		}
		return a.c.CallTool(ctx, name, encoded)
	})
}

// CallToolResult describes [Client.CallToolResult], like CallTool.
func (a *Async) CallToolResult(name string, args any) *openenv.Future[*Result] {
	encoded, invalid := encodeArguments(args)
	return openenv.Defer(a.c, func(ctx context.Context) (*Result, error) {
		if invalid != nil {
			return nil, a.c.invalid(name, invalid)
		}
		return a.c.CallToolResult(ctx, name, encoded)
	})
}
