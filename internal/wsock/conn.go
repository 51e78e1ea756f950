package wsock

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Conn is one open WebSocket. One goroutine may call Read and others, at the same
// time, Write (one at a time), Close and Abort. Whoever made the Conn closes it.
type Conn struct {
	ws    *websocket.Conn
	lane  *lane
	alive *keepalive
	opts  Options

	remembered string // a header of the handshake

	guard  guard
	broken error // of the Write that failed: the library would let the next one wait for its end

	cause    atomic.Pointer[error] // why this end gave up, before the library noticed
	closing  atomic.Bool
	closed   chan struct{} // closed once the first Close or Abort has finished
	closeErr error         // valid then
}

// Dial opens a WebSocket. ctx bounds the handshake only; redirects are not
// followed. That the server chose none of the subprotocols offered is no error. The
// error is a *HandshakeError.
func Dial(ctx context.Context, address string, client *http.Client, header http.Header, opts Options) (*Conn, error) {
	up := &upgrader{next: client.Transport}
	if up.next == nil {
		up.next = http.DefaultTransport
	}
	hc := &http.Client{
		Transport:     up,
		Jar:           client.Jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c := &Conn{opts: opts, closed: make(chan struct{})}
	//nolint:bodyclose // the library closes a body that is not the connection
	ws, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient:      hc,
		HTTPHeader:      header,
		Subprotocols:    opts.Subprotocols,
		CompressionMode: opts.compressionMode(),
		OnPingReceived: func(_ context.Context, payload []byte) bool {
			up.lane.sendPong(payload)
			return false
		},
	})
	if err != nil {
		if up.lane != nil {
			_ = up.lane.Close()
		}
		return nil, handshakeError(ctx, resp, err)
	}
	if opts.Remember != "" {
		c.remembered = resp.Header.Get(opts.Remember)
	}
	c.start(ws, up.lane)
	return c, nil
}

func handshakeError(ctx context.Context, resp *http.Response, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return &HandshakeError{Err: cause}
	}
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		status := resp.StatusCode
		return &HandshakeError{Status: status, Err: fmt.Errorf("upgrade refused with HTTP status %d %s", status, http.StatusText(status))}
	}
	// What net/http puts in front is the address, which can hold secrets; what is
	// behind it says which host refused, the server's or a proxy's.
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return &HandshakeError{Err: ue.Err}
	}
	return &HandshakeError{Err: innermost(err)}
}

// upgrader wraps the body of a 101 response, which is the raw connection, in a
// lane. It works above TLS and proxies alike.
type upgrader struct {
	next http.RoundTripper
	lane *lane
}

func (u *upgrader) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	if rwc, ok := resp.Body.(io.ReadWriteCloser); ok {
		u.lane = newLane(rwc, true)
		resp.Body = u.lane
	}
	return resp, nil
}

// AcceptOptions say which upgrades a server takes.
type AcceptOptions struct {
	Origins      []string // host patterns allowed beside the request's own host
	Subprotocols []string
}

// Accept upgrades a server's request. On failure the response has been written.
func Accept(w http.ResponseWriter, r *http.Request, accept AcceptOptions, opts Options) (*Conn, error) {
	hw := &hijackWriter{ResponseWriter: w}
	c := &Conn{opts: opts, closed: make(chan struct{})}
	ws, err := websocket.Accept(hw, r, &websocket.AcceptOptions{
		OriginPatterns:  accept.Origins,
		Subprotocols:    accept.Subprotocols,
		CompressionMode: opts.compressionMode(),
		OnPingReceived: func(_ context.Context, payload []byte) bool {
			hw.lane.sendPong(payload)
			return false
		},
	})
	if err != nil {
		return nil, innermost(err)
	}
	hw.ResponseWriter = nil // the ping handler keeps hw, not the request's buffers
	c.start(ws, hw.lane)
	return c, nil
}

// hijackWriter hands the library a lane in place of the network connection.
type hijackWriter struct {
	http.ResponseWriter
	lane *lane
}

func (h *hijackWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, nil, err
	}
	h.lane = newLane(conn, false)
	lc := &laneConn{Conn: conn, lane: h.lane}
	if brw.Reader.Buffered() > 0 { // a client that did not wait for the answer
		brw.Writer.Reset(lc)
		return lc, brw, nil
	}
	return lc, bufio.NewReadWriter(bufio.NewReaderSize(lc, bufferSize), bufio.NewWriterSize(lc, bufferSize)), nil
}

// bufferSize is what a server keeps for reading and for writing on each connection, as
// long as it lives: net/http would leave it two buffers of 4 KiB. Most actions and
// replies fit; the rest of a larger message is read into its own memory, and the lane
// collects what is written.
const bufferSize = 1 << 10

// laneConn is a lane in the shape of a net.Conn.
type laneConn struct {
	net.Conn
	lane *lane
}

func (c *laneConn) Read(p []byte) (int, error)  { return c.lane.Read(p) }
func (c *laneConn) Write(p []byte) (int, error) { return c.lane.Write(p) }
func (c *laneConn) Close() error                { return c.lane.Close() }

func (o Options) compressionMode() websocket.CompressionMode {
	if o.Compression {
		return websocket.CompressionNoContextTakeover
	}
	return websocket.CompressionDisabled
}

func (c *Conn) start(ws *websocket.Conn, l *lane) {
	c.ws, c.lane = ws, l
	c.guard.conn = c
	limit := c.opts.ReadLimit
	if limit == 0 {
		limit = -1
	}
	ws.SetReadLimit(limit)
	c.alive = startKeepalive(l, c.opts.PingInterval, c.opts.PongTimeout, func(err error) {
		c.giveUp(err)
		l.rwc.Close()
	})
}

// Remembered returns what the handshake's answer had in the header of Options.Remember.
func (c *Conn) Remembered() string { return c.remembered }

// Subprotocol returns what the handshake agreed on, or "".
func (c *Conn) Subprotocol() string { return c.ws.Subprotocol() }

// Read returns the next message in a buffer that it takes from alloc once the
// message has begun, and reports whether it was binary. It blocks until a message
// or the end of the connection; the error of an ended connection is a *CloseError
// or matches ErrTooBig, ErrKeepalive or an I/O error. After an error there is
// nothing left to read.
func (c *Conn) Read(alloc func() *bytes.Buffer) (buf *bytes.Buffer, binary bool, err error) {
	typ, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return nil, false, c.readError(err)
	}
	buf = alloc()
	if _, err := buf.ReadFrom(r); err != nil {
		return nil, false, c.readError(err)
	}
	return buf, typ == websocket.MessageBinary, nil
}

func (c *Conn) readError(err error) error {
	if cause := c.cause.Load(); cause != nil {
		return *cause
	}
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return fmt.Errorf("%w of %d bytes", ErrTooBig, c.opts.ReadLimit)
	}
	if ce, ok := errors.AsType[websocket.CloseError](err); ok {
		return &CloseError{Code: int(ce.Code), Reason: ce.Reason}
	}
	return fmt.Errorf("connection lost: %w", innermost(err))
}

// Write sends p as one text message, in pieces when it is large. When ctx ends in
// the middle the connection is broken: a half-written message cannot be undone.
func (c *Conn) Write(ctx context.Context, p []byte) error {
	if err := ctx.Err(); err != nil {
		return c.writeError(context.Cause(ctx))
	}
	if c.broken != nil {
		return c.writeError(c.broken)
	}
	c.guard.begin(ctx)
	err := c.write(p)
	c.guard.end()
	c.broken = err
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.writeError(err)
}

// write does not watch ctx: the library pays for that on every message, the guard
// only on one that does not get through at once.
func (c *Conn) write(p []byte) error {
	ctx := context.Background()
	if len(p) <= PieceSize || c.opts.Compression {
		return c.ws.Write(ctx, websocket.MessageText, p)
	}
	w, err := c.ws.Writer(ctx, websocket.MessageText)
	for err == nil && len(p) > 0 {
		n := min(len(p), PieceSize)
		_, err = w.Write(p[:n])
		p = p[n:]
	}
	if err == nil {
		err = w.Close()
	}
	return err
}

func (c *Conn) writeError(err error) error {
	if err == nil {
		return nil
	}
	if cause := c.cause.Load(); cause != nil {
		return *cause
	}
	return fmt.Errorf("write: %w", innermost(err))
}

// giveUp keeps the first reason why this end ended the connection.
func (c *Conn) giveUp(err error) { c.cause.CompareAndSwap(nil, &err) }

// Close shakes hands with the peer for at most CloseTimeout, then drops the
// connection. A concurrent Read ends. It is idempotent, and concurrent calls wait
// for the first.
func (c *Conn) Close(code int, reason string) error {
	c.once(func() error {
		limit := time.AfterFunc(c.opts.CloseTimeout, c.lane.abort)
		defer limit.Stop()
		return c.ws.Close(websocket.StatusCode(code), reason)
	})
	return c.closeErr
}

// Abort drops the connection without a handshake. A concurrent Close ends at once.
func (c *Conn) Abort() {
	c.lane.abort()
	c.once(c.ws.CloseNow)
}

// once runs the first close and lets the others wait for it, in a way that is a
// durable block in the sense of testing/synctest, which a sync.Once is not. That
// the peer was faster is no error.
func (c *Conn) once(end func() error) {
	if !c.closing.Swap(true) {
		c.alive.stop()
		if err := end(); !errors.Is(err, net.ErrClosed) {
			c.closeErr = err
		}
		_ = c.lane.Close() // was closed already, unless the library failed to
		close(c.closed)
	}
	<-c.closed
}

// innermost strips the layers of text that the library puts around a cause.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
