package envserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openenv-go/openenv/internal/wire"
)

// JSON-RPC error codes (core/env_server/mcp_types.py, JsonRpcErrorCode).
const (
	rpcParseError     = -32700
	rpcInvalidRequest = -32600
	rpcNotFound       = -32601
	rpcInvalidParams  = -32602
	rpcInternal       = -32603
	rpcServer         = -32000
)

type rpcRequest struct {
	JSONRPC *string         `json:"jsonrpc"`
	Method  *string         `json:"method"`
	Params  jsontext.Value  `json:"params"`
	ID      json.RawMessage `json:"id"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

type rpcResponse struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

var null = json.RawMessage("null")

func rpcFail(id json.RawMessage, code int, message string, data any) rpcResponse {
	if len(id) == 0 {
		id = null
	}
	return rpcResponse{JSONRPC: "2.0", ID: id, Error: &rpcError{code, message, data}}
}

func rpcResult(id json.RawMessage, result any) rpcResponse {
	if len(id) == 0 {
		id = null
	}
	return rpcResponse{JSONRPC: "2.0", ID: id, Result: result}
}

// parseRPC reads a request; the response is the error of one that is not.
func parseRPC(body []byte) (rpcRequest, *rpcResponse) {
	var req rpcRequest
	if jsontext.Value(body).Kind() != '{' {
		fail := rpcFail(nil, rpcParseError, "Parse error", nil)
		return req, &fail
	}
	if err := wire.Unmarshal(body, &req, wire.Float64); err != nil {
		code, text := rpcInvalidRequest, "Invalid request: "+err.Error()
		if _, syntax := errors.AsType[*jsontext.SyntacticError](err); syntax {
			code, text = rpcParseError, "Parse error"
		}
		fail := rpcFail(nil, code, text, nil)
		return req, &fail
	}
	for _, missing := range []struct {
		name   string
		absent bool
	}{{"jsonrpc", req.JSONRPC == nil || *req.JSONRPC != "2.0"}, {"method", req.Method == nil}} {
		if missing.absent {
			fail := rpcFail(nil, rpcInvalidRequest, "Invalid request: "+missing.name+" is missing or wrong", nil)
			return req, &fail
		}
	}
	return req, nil
}

func (k *socket) respond(resp rpcResponse) {
	body, err := wire.Marshal(resp)
	if err != nil {
		body, _ = wire.Marshal(rpcFail(resp.ID, rpcInternal, err.Error(), nil)) // a text encodes
	}
	k.buf.Reset()
	k.buf.Write(body)
}

// caller is where a request came from: a session's socket, or HTTP.
type caller struct {
	h  *hosted          // the socket's session, nil over HTTP
	do func(call) error // makes a call on it
}

// answerMCP answers an mcp frame of the session socket. The error tells a panic.
func (s *Server) answerMCP(k *socket, data jsontext.Value) error {
	k.h.touch()
	var resp rpcResponse
	var err error
	if req, fail := parseRPC(data); fail != nil {
		resp = rpcFail(nil, rpcInvalidRequest, fail.Error.Message, nil)
	} else {
		resp, err = s.rpc(k.callCtx(), req, caller{k.h, k.do})
		s.logPanic(k.h.id, err)
	}
	if why := k.calledOff(); why != nil && resp.Error != nil {
		k.fail(wire.Error{Code: wire.CodeCancelled, Message: why.Error()})
		return err
	}
	k.buf.Truncate(k.lead)
	if err := wire.AppendFrame(k.buf, wire.TypeMCP, resp); err != nil {
		k.fail(wire.Error{Code: wire.CodeExecution, Message: err.Error()})
	}
	return err
}

// rpc answers one request. The error tells that the environment panicked.
func (s *Server) rpc(ctx context.Context, req rpcRequest, from caller) (rpcResponse, error) {
	var params toolParams
	if len(req.Params) > 0 && req.Params.Kind() != '{' {
		return rpcFail(req.ID, rpcInvalidParams, "Params must be an object", nil), nil
	}
	if len(req.Params) > 0 {
		if wire.Unmarshal(req.Params, &params, wire.Float64) != nil {
			return rpcFail(req.ID, rpcInvalidParams, "Invalid params - 'session_id' and 'name' are texts", nil), nil //nolint:nilerr // the client is told
		}
	}
	switch *req.Method {
	case "openenv/session/create":
		return s.createSession(ctx, req, from.h), nil
	case "openenv/session/close":
		return s.closeSession(req, params.SessionID, from.h), nil
	case "tools/list", "tools/call":
		return s.rpcTools(ctx, req, params, from)
	}
	return rpcFail(req.ID, rpcNotFound, "Method not found: "+*req.Method, nil), nil
}

// rpcTools finds the environment that a request for tools is about: that of the
// socket, that of the session it names, or one built for it and thrown away.
func (s *Server) rpcTools(ctx context.Context, req rpcRequest, params toolParams, from caller) (rpcResponse, error) {
	var named *hosted
	if from.h == nil && params.SessionID != "" {
		if named = s.session(params.SessionID); named == nil {
			return rpcFail(req.ID, rpcInvalidParams, "Unknown session_id: "+params.SessionID, nil), nil
		}
	}
	switch {
	case !s.kind.hasTools:
		return rpcFail(req.ID, rpcInternal, errNoTools.Error(), nil), nil
	case *req.Method == "tools/call" && params.Name == "":
		return rpcFail(req.ID, rpcInvalidParams, "Missing 'name' in params", nil), nil
	case from.h != nil:
		return answerTools(req, params, from.do)
	case named == nil:
		return answerTools(req, params, func(c call) error { return s.throwaway(ctx, nil, c) })
	}
	resp, err := answerTools(req, params, func(c call) error { return s.callSession(ctx, named, c) })
	if err != nil {
		named.breakDown(err)
	}
	return resp, nil
}

// callSession makes a call on a session on behalf of an HTTP request, whose end ends
// the call.
func (s *Server) callSession(ctx context.Context, h *hosted, c call) error {
	l, ok := s.enter()
	if !ok {
		return ErrServerClosed
	}
	defer l.running.Done()
	ctx, cancel := h.bound(ctx)
	defer cancel()
	return h.do(ctx, c)
}

// bound returns a ctx for a request that ends with the session, too.
func (h *hosted) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(withMode(ctx, h.srv.set.mode))
	stop := context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// createSession makes a session that no socket owns. It lives until it is closed, or
// until it was idle for too long.
func (s *Server) createSession(ctx context.Context, req rpcRequest, h *hosted) rpcResponse {
	type created struct {
		SessionID string `json:"session_id"`
	}
	if h != nil {
		return rpcResult(req.ID, created{h.id})
	}
	l, ok := s.enter()
	if !ok {
		return rpcFail(req.ID, rpcServer, ErrServerClosed.Error(), nil)
	}
	defer l.running.Done()
	ctx, cancel := l.bound(ctx)
	defer cancel()
	made, err := s.host(ctx, l.base, l)
	if err != nil {
		return rpcFail(req.ID, rpcServer, err.Error(), refusalData(err))
	}
	made.manage()
	return rpcResult(req.ID, created{made.id})
}

// closeSession ends a session that was made over HTTP. One with a socket on it ends
// when the socket goes (http_server.py, openenv/session/close).
func (s *Server) closeSession(req rpcRequest, id string, own *hosted) rpcResponse {
	type closed struct {
		SessionID string `json:"session_id"`
		Closed    bool   `json:"closed"`
		Closing   bool   `json:"closing,omitempty"`
	}
	switch {
	case id == "":
		return rpcFail(req.ID, rpcInvalidParams, "Invalid params - 'session_id' is required", nil)
	case own != nil && own.id == id:
		return rpcFail(req.ID, rpcInvalidRequest, "Cannot close active WebSocket-managed session via MCP method", nil)
	}
	h := s.session(id)
	if h == nil {
		return rpcFail(req.ID, rpcInvalidParams, "Unknown session_id: "+id, nil)
	}
	h.mu.Lock()
	attached := h.socket != nil
	h.closing = true
	h.mu.Unlock()
	if attached {
		return rpcResult(req.ID, closed{SessionID: id, Closing: true})
	}
	h.end(errSessionEnded)
	return rpcResult(req.ID, closed{SessionID: id, Closed: true})
}
