package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/tooljson"
)

// guard is the outermost middleware of an environment's server. It knows the mode and
// the caller's ctx of each request, which the transport does not carry; it checks
// arguments, contains panics, and lets one handler run at a time.
type guard struct {
	own     sdk.Session // the environment's; others are none of its business
	modes   map[string]openenv.Mode
	inputs  inputs
	running chan struct{} // held by the handler that runs, or still runs

	mu      sync.Mutex
	last    int
	callers map[string]context.Context //nolint:containedctx // each while its request runs
}

func newGuard(modes map[string]openenv.Mode) *guard {
	return &guard{modes: modes, running: make(chan struct{}, 1), callers: make(map[string]context.Context)}
}

// callerKey is the member of a request's metadata that names its caller. Handlers do
// not see it.
const callerKey = "openenv-go/caller"

// enter registers a caller until leave is called. The metadata goes with its request.
func (g *guard) enter(ctx context.Context) (meta sdk.Meta, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	name := strconv.Itoa(g.last)
	g.callers[name] = ctx //nolint:fatcontext // a map of many calls, not a chain
	return sdk.Meta{callerKey: name}, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.callers, name)
	}
}

// caller returns the ctx of a request's caller and takes its name out of the metadata;
// a caller that has left is none.
func (g *guard) caller(meta sdk.Meta) (context.Context, bool) {
	name, _ := meta[callerKey].(string)
	delete(meta, callerKey)
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, ok := g.callers[name]
	return ctx, ok
}

func (g *guard) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if req.GetSession() != g.own {
			return next(ctx, method, req)
		}
		switch r := req.(type) {
		case *sdk.ListToolsRequest:
			return g.list(ctx, method, r, next)
		case *sdk.CallToolRequest:
			return g.call(ctx, method, r, next)
		}
		return next(ctx, method, req)
	}
}

// list leaves out the tools of the other mode.
func (g *guard) list(ctx context.Context, method string, req *sdk.ListToolsRequest, next sdk.MethodHandler) (sdk.Result, error) {
	mode, inServer := openenv.Mode(""), false
	if req.Params != nil {
		if from, ok := g.caller(req.Params.Meta); ok {
			mode, inServer = envserver.ServerMode(from), true
		}
	}
	res, err := next(ctx, method, req)
	list, ok := res.(*sdk.ListToolsResult)
	if err != nil || !ok || !inServer {
		return res, err
	}
	kept := *list
	kept.Tools = make([]*sdk.Tool, 0, len(list.Tools))
	for _, tool := range list.Tools {
		if g.exists(tool.Name, mode) {
			kept.Tools = append(kept.Tools, tool)
		}
	}
	return &kept, nil
}

// exists reports whether a tool is there in a mode. One that got a reserved name after
// the environment was made never is.
func (g *guard) exists(name string, mode openenv.Mode) bool {
	only, restricted := g.modes[name]
	return !slices.Contains(reserved, name) && (!restricted || only == mode)
}

// call runs a handler under the caller's ctx, when nothing speaks against it.
func (g *guard) call(ctx context.Context, method string, req *sdk.CallToolRequest, next sdk.MethodHandler) (res sdk.Result, err error) {
	from, ok := g.caller(req.Params.Meta)
	if !ok {
		return nil, context.Canceled // it has left
	}
	ctx, cancel := join(ctx, from)
	defer cancel()
	select {
	case g.running <- struct{}{}:
		defer func() { <-g.running }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, refuse(envserver.ToolErrorExecution, "Error calling tool '%s': it panicked: %v", req.Params.Name, p)
		}
	}()
	tool, err := g.admit(ctx, req, envserver.ServerMode(from), next)
	if err != nil {
		return nil, err
	}
	res, err = next(ctx, method, req)
	if result, ok := res.(*sdk.CallToolResult); ok && err == nil && result.StructuredContent != nil && wraps(tool.OutputSchema) {
		tooljson.MarkWrapped(result)
	}
	return res, err
}

// admit finds the tool and says what is wrong with a call of it.
func (g *guard) admit(ctx context.Context, req *sdk.CallToolRequest, mode openenv.Mode, next sdk.MethodHandler) (*sdk.Tool, error) {
	name := req.Params.Name
	tool, err := find(ctx, req.Session, name, next)
	switch {
	case err != nil:
		return nil, err
	case tool == nil, slices.Contains(reserved, name):
		return nil, refuse(envserver.ToolErrorNotFound, "Unknown tool: '%s'", name)
	case !g.exists(name, mode):
		return nil, refuse(envserver.ToolErrorNotFound, "Tool '%s' not available in %s mode", name, mode)
	}
	if err := g.inputs.check(tool, req.Params.Arguments); err != nil {
		return nil, refuse(envserver.ToolErrorInvalidArgs, "Invalid arguments for tool '%s': %v", name, err)
	}
	return tool, nil
}

// find asks the server itself, so that a tool counts as soon as it is added.
func find(ctx context.Context, session *sdk.ServerSession, name string, next sdk.MethodHandler) (*sdk.Tool, error) {
	params := new(sdk.ListToolsParams)
	for {
		res, err := next(ctx, "tools/list", &sdk.ListToolsRequest{Session: session, Params: params})
		if err != nil {
			return nil, err
		}
		list, ok := res.(*sdk.ListToolsResult)
		if !ok {
			return nil, fmt.Errorf("middleware answered tools/list with a %T", res)
		}
		for _, tool := range list.Tools {
			if tool.Name == name {
				return tool, nil
			}
		}
		if list.NextCursor == "" {
			return nil, nil //nolint:nilnil // there is no such tool
		}
		params = &sdk.ListToolsParams{Cursor: list.NextCursor}
	}
}

// errorType is the data of the guard's own errors.
type errorType struct {
	Guard bool   `json:"guard"`
	Type  string `json:"error_type"`
}

func refuse(typ, format string, args ...any) error {
	data, err := json.Marshal(errorType{Guard: true, Type: typ})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf(format, args...), Data: data}
}

// both is a ctx of the SDK's that also has the values of the caller's.
type both struct {
	context.Context //nolint:containedctx // it is one

	from context.Context //nolint:containedctx // for its values
}

func (b both) Value(key any) any {
	if value := b.Context.Value(key); value != nil {
		return value
	}
	return b.from.Value(key)
}

// join ends with either ctx, with the cause of the caller's.
func join(ctx, from context.Context) (context.Context, context.CancelFunc) {
	joined, cancel := context.WithCancelCause(both{ctx, from})
	stop := context.AfterFunc(from, func() { cancel(context.Cause(from)) })
	return joined, func() { stop(); cancel(nil) }
}
