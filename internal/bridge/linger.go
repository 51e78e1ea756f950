package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// lingerLimit is how long an end of input waits for the answers to what was asked before
// it. A host that leaves in mid-call waits that long, too.
const lingerLimit = time.Second

// lingering is a transport on which input that ends, as that of a pipe does, does not
// cut off the answers to what was asked, and on which a request that was cancelled is not
// answered: the host has forgotten its id.
type lingering struct{ sdk.Transport }

// Connect implements [sdk.Transport].
func (t lingering) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &lingerer{
		Connection: c, answered: make(chan struct{}, 1), closed: make(chan struct{}),
		open: make(map[jsonrpc.ID]bool),
	}, nil
}

type lingerer struct {
	sdk.Connection

	answered chan struct{} // gets a value with an answer
	closed   chan struct{}
	once     sync.Once

	mu   sync.Mutex
	open map[jsonrpc.ID]bool // requests without an answer; true: cancelled
}

func (c *lingerer) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	switch {
	case errors.Is(err, io.EOF):
		c.linger(ctx)
	case err == nil:
		if req, ok := msg.(*jsonrpc.Request); ok {
			c.note(req)
		}
	}
	return msg, err
}

// note keeps account of what was asked and what was cancelled.
func (c *lingerer) note(req *jsonrpc.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if req.IsCall() {
		c.open[req.ID] = false
		return
	}
	if req.Method != "notifications/cancelled" {
		return
	}
	var params sdk.CancelledParams
	if json.Unmarshal(req.Params, &params) != nil {
		return // the SDK ignores it, too
	}
	if id, err := jsonrpc.MakeID(params.RequestID); err == nil {
		if _, ok := c.open[id]; ok {
			c.open[id] = true
		}
	}
}

func (c *lingerer) Write(ctx context.Context, msg jsonrpc.Message) error {
	answer, ok := msg.(*jsonrpc.Response)
	if !ok {
		return c.Connection.Write(ctx, msg)
	}
	defer func() {
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}()
	if c.settle(answer.ID) {
		return nil
	}
	return c.Connection.Write(ctx, msg)
}

// settle takes a request off the account and reports whether it was cancelled.
func (c *lingerer) settle(id jsonrpc.ID) (cancelled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancelled = c.open[id]
	delete(c.open, id)
	return cancelled
}

func (c *lingerer) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}

func (c *lingerer) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) > 0
}

func (c *lingerer) linger(ctx context.Context) {
	limit := time.NewTimer(lingerLimit)
	defer limit.Stop()
	for c.waiting() {
		select {
		case <-c.answered:
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		case <-limit.C:
			return
		}
	}
}
