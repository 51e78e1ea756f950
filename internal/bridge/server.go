package bridge

import (
	"context"
	"log/slog"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/mcp"
)

// Config is what a bridge is told.
type Config struct {
	// Dial makes a client of the OpenEnv server and does no I/O. Each session gets one,
	// and the bridge closes it.
	Dial func() (*mcp.Client, error)
	// Version is that of the program, for hosts.
	Version string
	// Logger gets what goes wrong beside the protocol; nil is nobody.
	Logger *slog.Logger
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

// newServer makes a server whose tools are those of the session that find returns; nil
// is a session that has none yet.
func (c Config) newServer(about *sdk.Implementation, instructions string, find func(sdk.Session) *upstream) *sdk.Server {
	s := sdk.NewServer(about, &sdk.ServerOptions{
		Instructions: instructions,
		Logger:       c.logger(),
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	// Not AddTool: it refuses schemas that it does not like and sorts by name. What the
	// environment says is for the host to judge.
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			switch params := req.GetParams().(type) {
			case *sdk.CallToolParamsRaw:
				if u := find(req.GetSession()); u != nil {
					return result(u.call(ctx, params))
				}
				return nil, noSession(method)
			case *sdk.ListToolsParams:
				if u := find(req.GetSession()); u != nil {
					return result(u.list(params))
				}
				return nil, noSession(method)
			}
			return next(ctx, method, req)
		}
	})
	return s
}

// result keeps a nil pointer from becoming a result that is not nil.
func result[R sdk.Result](r R, err error) (sdk.Result, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func noSession(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: method + ": the session has not been initialized"}
}

// list returns all tools: there is one page.
func (u *upstream) list(params *sdk.ListToolsParams) (*sdk.ListToolsResult, error) {
	if params != nil && params.Cursor != "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown cursor: all tools are on one page"}
	}
	return &sdk.ListToolsResult{Tools: u.tools}, nil
}

// describe is how the environment is presented to hosts: by its own name, if it has one.
func (c Config) describe(ctx context.Context, client *mcp.Client) (about *sdk.Implementation, instructions string) {
	about = &sdk.Implementation{Name: "openenv", Version: c.Version}
	said, err := client.Metadata(ctx)
	if err != nil {
		return about, "" // a server need not describe itself
	}
	if name := strings.TrimSpace(said.Name); name != "" {
		about.Name = name
	}
	return about, said.Description
}
