package bridge

import (
	"context"
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
// cut off the answers to what was asked.
type lingering struct{ sdk.Transport }

// Connect implements [sdk.Transport].
func (t lingering) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &lingerer{Connection: c, answered: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

type lingerer struct {
	sdk.Connection

	answered chan struct{} // gets a value with an answer
	closed   chan struct{}
	once     sync.Once

	mu   sync.Mutex
	open int // requests without an answer
}

func (c *lingerer) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	switch {
	case errors.Is(err, io.EOF):
		c.linger(ctx)
	case err == nil:
		if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
			c.count(1)
		}
	}
	return msg, err
}

func (c *lingerer) Write(ctx context.Context, msg jsonrpc.Message) error {
	err := c.Connection.Write(ctx, msg)
	if _, ok := msg.(*jsonrpc.Response); ok {
		c.count(-1)
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

func (c *lingerer) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}

func (c *lingerer) count(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	return c.open
}

func (c *lingerer) linger(ctx context.Context) {
	limit := time.NewTimer(lingerLimit)
	defer limit.Stop()
	for c.count(0) > 0 {
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
