package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/openenv-go/openenv/internal/rpc"
	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
)

// RPCError is an error that the server answered to a JSON-RPC request.
type RPCError struct {
	Op      string
	URL     string
	Code    int // of JSON-RPC: -32602 invalid parameters, -32603 internal error, …
	Message string
	Data    json.RawMessage // what the server says beside it; nil when nothing
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("%s %s: server error %d: %s", e.Op, e.URL, e.Code, e.Message)
}

var errNotManaged = errors.New("a JSON-RPC request needs a session that was made over HTTP (WithManagedSession)")

// RPC makes a JSON-RPC request of the session that s has made over HTTP: POST /mcp, with
// the session's identifier added to params. It is a blocking verb: it takes a turn, so
// that requests and the frames of the session's socket follow each other, and it makes
// the session if there is none. tools/list reads; every other method may change the
// environment, and if its answer is lost the error is a *[StepInDoubtError].
//
// The server's own error is an *[RPCError]. A session that the server does not know is a
// *[SessionLostError] that matches [ErrUnknownSession]; the next request of a client
// that never reset makes a new one.
func RPC(ctx context.Context, s Session, method string, params Object) (json.RawMessage, error) {
	defer runtime.KeepAlive(s)
	c := s.sessionCore()
	op := session.OpTool
	if method == "tools/list" {
		op = session.OpToolList
	}
	if c.origin == nil {
		return nil, fmt.Errorf("%s: %w", op, errNotManaged)
	}
	t, err := c.begin(ctx, session.FaceBlocking, op, 0)
	if err != nil {
		return nil, err
	}
	request := rpcRequest{method: method, params: params}
	reply, err := c.performBy(ctx, t, op, nil, request.trip(c))
	if err != nil {
		return nil, err
	}
	wire.PutBuffer(reply)
	return request.answer, nil
}

// rpcRequest is a request to a session. It is encoded when the session is there, whose
// identifier it names.
type rpcRequest struct {
	method string
	params Object
	answer json.RawMessage
}

func (r *rpcRequest) trip(c *core) trip {
	return func(ctx context.Context, t *session.Turn, x *session.Exchange) error {
		numbered, err := c.sess.Numbered(ctx, x.Op)
		if err != nil {
			return c.convert(x.Op.String(), err)
		}
		if numbered {
			return r.asFrame(ctx, c, t, x)
		}
		err = c.sess.Aside(ctx, x.Op, func(ctx context.Context, id string) (err error) {
			if id == "" {
				return errNotManaged
			}
			params := maps.Clone(r.params)
			if params == nil {
				params = Object{}
			}
			params["session_id"] = id
			r.answer, err = c.post(ctx, x.Op.String(), r.method, params, x)
			return err
		})
		return c.rpcFailure(ctx, x, err)
	}
}

// asFrame makes the request on the socket, where requests are numbered: it is applied
// once, whatever becomes of the socket.
func (r *rpcRequest) asFrame(ctx context.Context, c *core, t *session.Turn, x *session.Exchange) error {
	id := c.requests.Add(1)
	params := r.params
	if params == nil {
		params = Object{}
	}
	request, err := rpc.Request(id, r.method, params)
	if err != nil {
		return fmt.Errorf("%s: encode: %w", x.Op, err)
	}
	var frame bytes.Buffer
	if err := wire.AppendFrame(&frame, wire.TypeMCP, json.RawMessage(request)); err != nil {
		return fmt.Errorf("%s: encode: %w", x.Op, err)
	}
	x.Request = frame.Bytes()
	if err := c.roundTrip(ctx, t, x); err != nil {
		return err
	}
	data, err := wire.Data(x.Reply.Bytes())
	if err == nil {
		r.answer, err = rpc.Response(data, id)
	}
	if _, answered := errors.AsType[*rpc.Error](err); err != nil && !answered {
		return c.decodeError(x.Op.String(), x.Reply, err)
	}
	return c.rpcFailure(ctx, x, err)
}

// rpcFailure turns the failure of an exchange over HTTP into this package's error.
func (c *core) rpcFailure(ctx context.Context, x *session.Exchange, err error) error {
	op := x.Op.String()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil: // a caller that leaves knows that it did
		return c.convert(op, ctxError(ctx))
	}
	if answered, ok := errors.AsType[*rpc.Error](err); ok {
		return c.rpcError(op, answered)
	}
	if elsewhere, ok := errors.AsType[*WrongReplicaError](err); ok { // which has done nothing
		return &ConnectError{Op: op, URL: c.rpcURL(), Err: elsewhere}
	}
	failed, ok := errors.AsType[*ConnectError](err)
	if ok && x.Op == session.OpTool && !x.Sent.IsZero() && failed.Status == 0 && !notSent(err) {
		return &StepInDoubtError{Op: op, URL: failed.URL, Cause: failed.Err}
	}
	return c.convert(op, err)
}

func (c *core) rpcError(op string, answered *rpc.Error) *RPCError {
	data := answered.Data
	if string(data) == "null" {
		data = nil
	}
	return &RPCError{Op: op, URL: c.rpcURL(), Code: answered.Code, Message: answered.Message, Data: data}
}

// notSent reports a failure before the first byte of a request.
func notSent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

func (c *core) rpcURL() string { return c.baseURL() + "/mcp" }

// createSession is the method by which a session is made on the server that answers.
const createSession = "openenv/session/create"

// manage makes the requests that make and end the session itself.
func (c *core) manage(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if method == createSession && c.numberedOnly() {
		numbered, err := c.numbersRequests(ctx)
		if err != nil {
			return nil, err
		}
		if !numbered {
			return nil, errUnnumbered
		}
	}
	return c.post(ctx, "session", method, params, new(session.Exchange))
}

var errUnnumbered = errors.New("server does not number requests")

func (c *core) numberedOnly() bool { return c.set.resume != nil && c.set.resume.NumberedOnly }

// numbersRequests asks the server where c lives whether it is one of package envserver,
// which all its answers on this route say: for a method that nobody has.
func (c *core) numbersRequests(ctx context.Context) (bool, error) {
	request, err := rpc.Request(1, "openenv/session", struct{}{})
	if err != nil {
		return false, err
	}
	got, err := c.exchange(ctx, "session", http.MethodPost, "/mcp", request)
	if err != nil && !makesNoSessions(err) {
		return false, err
	}
	return got.instance != "", nil
}

// post makes one JSON-RPC exchange over HTTP.
func (c *core) post(ctx context.Context, op, method string, params any, x *session.Exchange) (json.RawMessage, error) {
	id := c.requests.Add(1)
	request, err := rpc.Request(id, method, params)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	x.Request, x.Sent = request, time.Now()
	got, err := c.exchange(ctx, op, http.MethodPost, "/mcp", request)
	if err != nil {
		return nil, err
	}
	x.Received = time.Now()
	if method == createSession {
		c.instance.Store(&got.instance)
	}
	if err := c.sameInstance(got.instance); err != nil {
		return nil, &ConnectError{Op: op, URL: c.rpcURL(), Err: err}
	}
	result, err := rpc.Response(got.body, id)
	if _, answered := errors.AsType[*rpc.Error](err); err != nil && !answered {
		err = &DecodeError{Op: op, URL: c.rpcURL(), Received: wire.Excerpt(got.body), Err: err}
	}
	x.Reply = bytes.NewBuffer(got.body)
	return result, err
}
