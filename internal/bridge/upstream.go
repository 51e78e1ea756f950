package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/mcp"
)

// upstream is the session of the environment behind one session of the protocol.
type upstream struct {
	client *mcp.Client
	tools  []*sdk.Tool

	calls  context.Context // of all calls; ends before the client is closed
	cancel context.CancelFunc

	closed   chan struct{} // closed when the environment's session has ended
	renewing chan struct{} // held while an episode is being replaced

	mu      sync.Mutex
	lost    bool // the episode is gone, and the host was told
	episode int
}

// open starts an episode and asks for its tools. An environment without any is an error
// that matches [mcp.ErrNoTools].
func open(ctx context.Context, dial func() (*mcp.Client, error)) (*upstream, error) {
	client, err := dial()
	if err != nil {
		return nil, err
	}
	u := &upstream{client: client, closed: make(chan struct{}), renewing: make(chan struct{}, 1)}
	u.calls, u.cancel = context.WithCancel(context.Background())
	if err := u.begin(ctx); err != nil {
		return nil, errors.Join(err, u.close())
	}
	return u, nil
}

func (u *upstream) begin(ctx context.Context) (err error) {
	if _, err = u.client.Reset(ctx); err != nil && !u.refusesResets(err) {
		return err
	}
	if u.tools, err = u.client.ListTools(ctx); err != nil {
		return err
	}
	if len(u.tools) == 0 {
		return fmt.Errorf("list tools %s: %w", u.client.BaseURL(), mcp.ErrNoTools)
	}
	return nil
}

// refusesResets reports a server that is there for tools alone
// (envserver.WithStrictProduction): its sessions begin with their first call.
func (u *upstream) refusesResets(err error) bool {
	refused, ok := errors.AsType[*openenv.ServerError](err)
	return ok && u.client.Mode() == openenv.ModeProduction && strings.Contains(refused.Message, "not available in production mode")
}

// interrupt ends the calls that run, and those to come.
func (u *upstream) interrupt() { u.cancel() }

// close ends the environment's session. It is called once.
func (u *upstream) close() error {
	defer close(u.closed)
	u.interrupt()
	return u.client.Close()
}

// call passes a call on. A failure that a model can read and act upon is a result with
// isError; the protocol's own errors are for a tool that is not there and for a call
// that was cancelled.
func (u *upstream) call(ctx context.Context, params *sdk.CallToolParamsRaw) (*sdk.CallToolResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(u.calls, func() { cancel(openenv.ErrClosed) })()

	episode, err := u.renew(ctx)
	if err != nil {
		return failed(ctx, fmt.Sprintf("the episode was lost, and a new one does not start: %v", err))
	}
	result, err := u.client.CallToolResult(ctx, params.Name, arguments(params.Arguments))
	if err != nil {
		return u.failure(ctx, episode, err)
	}
	return complete(result), nil
}

// arguments leaves out what stands for none.
func arguments(raw json.RawMessage) any {
	if len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	return raw
}

func (u *upstream) failure(ctx context.Context, episode int, err error) (*sdk.CallToolResult, error) {
	refused, _ := errors.AsType[*mcp.ToolError](err)
	lost, isLost := errors.AsType[*openenv.SessionLostError](err)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case isLost:
		u.lose(episode)
		return failed(ctx, fmt.Sprintf("the environment's session was lost, and what was done in it is gone: %v. The next call starts a new episode.", lost.Cause))
	case refused == nil:
		return failed(ctx, err.Error())
	case refused.Result != nil:
		return complete(&mcp.Result{CallToolResult: refused.Result}), nil
	case refused.Kind == mcp.KindToolNotFound:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", refused.Tool)}
	}
	return failed(ctx, reason(refused))
}

// reason is what went wrong, with the fields that a server names.
func reason(refused *mcp.ToolError) string {
	lines := []string{refused.Message}
	if server, ok := errors.AsType[*openenv.ServerError](refused); ok {
		for _, field := range server.Fields() {
			lines = append(lines, field.String())
		}
	}
	return strings.Join(lines, "\n")
}

// failed is a failed call as a result, or the end of ctx.
func failed(ctx context.Context, text string) (*sdk.CallToolResult, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
}

// complete gives a result what the protocol asks for: content, which is the text of the
// value where the environment answered with nothing but a value.
func complete(r *mcp.Result) *sdk.CallToolResult {
	result := *r.CallToolResult
	if len(result.Content) > 0 {
		return &result
	}
	result.Content = []sdk.Content{}
	if r.Data == nil {
		return &result
	}
	text := string(r.Data)
	var value any
	if json.Unmarshal(r.Data, &value) == nil {
		if words, ok := value.(string); ok {
			text = words
		}
		if _, ok := value.(map[string]any); ok && result.StructuredContent == nil {
			result.StructuredContent = r.Data
		}
	}
	result.Content = append(result.Content, &sdk.TextContent{Text: text})
	return &result
}

// lose notes that an episode is gone, unless another has taken its place.
func (u *upstream) lose(episode int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lost = u.lost || u.episode == episode
}

func (u *upstream) state() (lost bool, episode int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lost, u.episode
}

// renew starts a new episode in the place of a lost one, and returns the number of the
// one there is.
func (u *upstream) renew(ctx context.Context) (int, error) {
	select {
	case u.renewing <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-u.renewing }()
	lost, episode := u.state()
	if !lost {
		return episode, nil
	}
	if _, err := u.client.Reset(ctx); err != nil && !u.refusesResets(err) {
		return 0, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lost = false
	u.episode++
	return u.episode, nil
}
