package openenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wsock"
)

// core is the untyped part of a client. It never refers to the Client, so that a
// forgotten client can be collected while its goroutines still run.
type core struct {
	set    *settings
	host   *host // shared by the family
	sess   *session.Session
	parent *core

	closing chan struct{} // lock held for the whole of a close

	mu       sync.Mutex
	closed   bool
	children map[*core]struct{}
}

func newCore(set *settings, h *host, parent *core) *core {
	c := &core{
		set:      set,
		host:     h,
		parent:   parent,
		closing:  make(chan struct{}, 1),
		children: make(map[*core]struct{}),
	}
	c.sess = session.New(session.Config{
		Dial:           c.dial,
		MessageTimeout: set.messageTimeout,
		CloseTimeout:   set.closeTimeout,
		Pipelining:     set.pipelining,
		KeepOnCancel:   set.keepOnCancel,
		Retry:          session.Retry(set.retry),
		Final:          func(err error) bool { return errors.Is(err, ErrGone) },
		Logger:         set.logger,
	})
	return c
}

// begin claims the face and takes a turn.
func (c *core) begin(ctx context.Context, face session.Face, op session.Op, size int) (*session.Turn, error) {
	t, err := c.sess.Begin(ctx, face, op, size)
	if err != nil {
		return nil, c.convert(op.String(), err)
	}
	return t, nil
}

// sessionID is empty: a session that lives on its socket has no identifier.
func (c *core) sessionID() string { return "" }

// dial starts the server if need be and opens the socket. What it started it stops
// again when the socket cannot be opened.
func (c *core) dial(ctx context.Context, query url.Values) (*wsock.Conn, error) {
	at, err := c.host.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	ws, err := c.open(ctx, at, query)
	if err != nil && at.fresh {
		return nil, c.host.undo(err)
	}
	return ws, err
}

func (c *core) open(ctx context.Context, at target, query url.Values) (*wsock.Conn, error) {
	fail := func(status int, err error) (*wsock.Conn, error) {
		return nil, &ConnectError{Op: "connect", URL: at.base.SocketString(), Status: status, Err: err}
	}
	header, err := c.header(ctx, at)
	if err != nil {
		return fail(0, err)
	}
	if limit := c.set.connectTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("no connection within %v", limit))
		defer cancel()
	}
	interval, timeout := c.keepalive(at)
	ws, err := wsock.Dial(ctx, at.base.Socket(query).String(), c.host.upgrades, header, wsock.Options{
		ReadLimit:    c.set.maxMessage,
		PingInterval: interval,
		PongTimeout:  timeout,
		CloseTimeout: c.set.closeTimeout,
		Compression:  c.set.compression,
	})
	if err != nil {
		var refused *wsock.HandshakeError
		if errors.As(err, &refused) {
			return fail(refused.Status, refused.Err)
		}
		return fail(0, err)
	}
	return ws, nil
}

// header merges the headers of one request: the provider's, the fixed ones, and
// those asked for anew each time.
func (c *core) header(ctx context.Context, at target) (http.Header, error) {
	h := http.Header{}
	merge := func(from http.Header) {
		for k, v := range from {
			h[http.CanonicalHeaderKey(k)] = v
		}
	}
	merge(at.headers)
	merge(c.set.headers)
	if c.set.headerFunc != nil {
		fresh, err := c.set.headerFunc(ctx)
		if err != nil {
			return nil, fmt.Errorf("header function: %w", err)
		}
		merge(fresh)
	}
	return h, nil
}

// connect opens the session and waits for admission, moving on to another replica
// when one is full.
func (c *core) connect(ctx context.Context) error {
	if err := c.reopen(); err != nil {
		return c.convert("connect", err)
	}
	generation := c.host.generation()
	var err error
	for {
		err = c.convert("connect", c.sess.Connect(ctx))
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrCapacity) || !c.host.reassign(ctx, c) {
			break
		}
	}
	if ctx.Err() == nil && c.host.generation() != generation {
		// This call started the server, and it is of no use.
		err = c.host.undo(err)
	}
	return err
}

// reopen lets Connect, and only Connect, revive a closed client whose server its
// provider can start anew.
func (c *core) reopen() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		return nil
	}
	if c.parent != nil || !c.host.ownsServer {
		return session.ErrClosed
	}
	c.closed = false
	c.sess.Reopen()
	return nil
}

// forgotten runs when a client was collected without having been closed.
func (c *core) forgotten() {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return // by its parent
	}
	c.set.logger.Warn("client was forgotten without Close; closing its session", "url", c.host.socketURL())
	go func() {
		if err := c.close(); err != nil {
			c.set.logger.Warn("closing a forgotten client failed", "err", err)
		}
	}()
}
