package openenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
)

// core is the untyped part of a client. It never refers to the Client, so that a
// forgotten client can be collected while its goroutines still run.
type core struct {
	set    *settings
	host   *host // shared by the family
	sess   *session.Session
	origin *session.Managed // nil: the session lives on its socket
	parent *core

	requests atomic.Uint64          // JSON-RPC requests made
	instance atomic.Pointer[string] // of the server that has made the session, where it says

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
	if parent == nil {
		h.root = c
	}
	var origin session.Origin
	if set.managed {
		c.origin = session.NewManaged(c.manage)
		if set.resume != nil && set.resume.NumberedOnly {
			c.origin.Optional(func(err error) bool { return errors.Is(err, errUnnumbered) || makesNoSessions(err) })
		}
		origin = c.origin
	}
	c.sess = session.New(session.Config{
		Dial:           c.dial,
		Origin:         origin,
		Resume:         resumePolicy(set),
		Plan:           c.plan,
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

func resumePolicy(set *settings) *session.Resume {
	if set.resume == nil {
		return nil
	}
	return &session.Resume{Attempts: set.resume.Attempts, Backoff: set.resume.Backoff, MaxWait: set.resume.MaxWait, Trust: set.trust}
}

// begin claims the face and takes a turn.
func (c *core) begin(ctx context.Context, face session.Face, op session.Op, size int) (*session.Turn, error) {
	t, err := c.sess.Begin(ctx, face, op, size)
	if err != nil {
		return nil, c.convert(op.String(), err)
	}
	return t, nil
}

// face is the execution mode that the client is locked to.
func (c *core) face() ExecMode { return ExecMode(c.sess.Status().Face) }

// sessionID is empty for a session that lives on its socket: it has no identifier.
func (c *core) sessionID() string {
	if c.origin == nil {
		return ""
	}
	return c.origin.ID()
}

// dial starts the server if need be and opens the socket.
func (c *core) dial(ctx context.Context, query url.Values) (*wsock.Conn, error) {
	at, err := c.host.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	return c.open(ctx, at, query)
}

// plan says how one attempt to open a session goes on: from replica to replica, and
// when all is in vain without the server that was started for it.
func (c *core) plan() session.Plan {
	h := c.host
	generation := h.generation()
	tried := make(map[*replica]bool)
	return session.Plan{
		Admit:  h.several,
		Next:   func(ctx context.Context, err error) bool { return h.reassign(ctx, c, tried, err) },
		GiveUp: func(ctx context.Context, err error) error { return h.undo(ctx, c, generation, err) },
	}
}

func (c *core) open(ctx context.Context, at target, query url.Values) (*wsock.Conn, error) {
	fail := func(status int, err error) (*wsock.Conn, error) {
		return nil, &ConnectError{Op: "connect", URL: at.base.SocketString(), Status: status, Err: withoutURL(err)}
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
		Subprotocols: c.subprotocols(),
		Remember:     wire.InstanceHeader,
	})
	if err != nil {
		if refused, ok := errors.AsType[*wsock.HandshakeError](err); ok {
			return fail(refused.Status, refused.Err)
		}
		return fail(0, err)
	}
	if err := c.sameInstance(ws.Remembered()); err != nil {
		ws.Abort()
		return fail(0, err)
	}
	return ws, nil
}

// subprotocols are offered for sessions that are to survive their socket; the Python
// server ignores them.
func (c *core) subprotocols() []string {
	if c.set.resume == nil {
		return nil
	}
	return []string{wire.SessionV1}
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

// connect opens the session and waits for admission.
func (c *core) connect(ctx context.Context) error {
	if err := c.reopen(ctx); err != nil {
		return c.convert("connect", err)
	}
	generation := c.host.generation()
	err := c.sess.Connect(ctx)
	if err != nil && ctx.Err() == nil {
		err = c.host.undo(ctx, c, generation, err)
	}
	return c.convert("connect", err)
}

// reopen lets Connect, and only Connect, revive a closed client whose server its
// provider can start anew. A close in progress ends first.
func (c *core) reopen(ctx context.Context) error {
	if !c.isClosed() {
		return nil
	}
	if c.parent != nil || !c.host.ownsServer {
		return session.ErrClosed
	}
	select {
	case c.closing <- struct{}{}:
		defer func() { <-c.closing }()
	case <-ctx.Done():
		return ctxError(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.closed = false
		c.sess.Reopen()
		c.host.reopen()
	}
	return nil
}

func (c *core) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// isUnused reports that there is nothing to close: no socket was opened and no server
// started. To forget such a client is harmless.
func (c *core) isUnused() bool {
	ours := c.set.provider == nil || c.host.ownsServer
	return ours && c.host.generation() == 0 && !c.sess.Status().Connected
}

// forgotten runs when a client was collected without having been closed. The
// goroutine that it starts is nobody's, as the client was; it ends with the close,
// which is bounded.
func (c *core) forgotten() {
	if c.isClosed() || c.isUnused() {
		return
	}
	c.set.logger.Warn("client was forgotten without Close; closing its session", "url", c.socketURL())
	go func() {
		if err := c.close(); err != nil {
			c.set.logger.Warn("closing a forgotten client failed", "err", err)
		}
	}()
}
