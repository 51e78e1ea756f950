package envserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

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

// serveRPC is POST /mcp. The status is always 200: errors are JSON-RPC's.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request) {
	body, ok := s.readBody(w, r)
	if !ok {
		return
	}
	req, fail := parseRPC(body)
	if fail != nil {
		writeValue(w, fail)
		return
	}
	writeValue(w, s.rpc(r.Context(), req, nil))
}

// serveRPCSocket is GET /mcp: a session of its own whose messages are JSON-RPC.
func (s *Server) serveRPCSocket(w http.ResponseWriter, r *http.Request) {
	if !isUpgrade(r) {
		writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	s.upgrade(w, r, func(k *socket) (int, string) {
		if err := k.begin(""); err != nil {
			return k.refuse(func() { k.respond(rpcFail(nil, rpcServer, err.Error(), refusalData(err))) })
		}
		defer k.finish()
		return k.serve(func(msg message) (bool, error) {
			k.h.touch()
			req, fail := parseRPC(msg.buf.Bytes())
			if fail == nil && !msg.binary {
				k.respond(s.rpc(k.h.ctx, req, k.h))
				return false, nil
			}
			if fail == nil {
				binary := rpcFail(nil, rpcParseError, "Parse error", nil)
				fail = &binary
			}
			k.respond(*fail)
			return false, nil
		})
	})
}

func (k *socket) respond(resp rpcResponse) {
	body, err := wire.Marshal(resp)
	if err != nil {
		body, _ = wire.Marshal(rpcFail(resp.ID, rpcInternal, err.Error(), nil)) // a text encodes
	}
	k.buf.Reset()
	k.buf.Write(body)
}

// answerMCP answers an mcp frame of the session socket.
func (s *Server) answerMCP(k *socket, data jsontext.Value) {
	k.h.touch()
	resp := func() rpcResponse {
		req, fail := parseRPC(data)
		if fail != nil {
			return rpcFail(nil, rpcInvalidRequest, fail.Error.Message, nil)
		}
		return s.rpc(k.h.ctx, req, k.h)
	}()
	k.buf.Reset()
	if err := wire.AppendFrame(k.buf, wire.TypeMCP, resp); err != nil {
		k.fail(wire.Error{Code: wire.CodeExecution, Message: err.Error()})
	}
}

// rpc answers one request; h is the session whose socket it came on, nil over HTTP.
func (s *Server) rpc(ctx context.Context, req rpcRequest, h *hosted) rpcResponse {
	var params struct {
		SessionID string `json:"session_id"`
	}
	if len(req.Params) > 0 && req.Params.Kind() != '{' {
		return rpcFail(req.ID, rpcInvalidParams, "Params must be an object", nil)
	}
	if len(req.Params) > 0 {
		if err := wire.Unmarshal(req.Params, &params, wire.Float64); err != nil {
			return rpcFail(req.ID, rpcInvalidParams, "Invalid params - 'session_id' is a text", nil)
		}
	}
	switch *req.Method {
	case "openenv/session/create":
		return s.createSession(ctx, req, h)
	case "openenv/session/close":
		return s.closeSession(req, params.SessionID, h)
	case "tools/list", "tools/call":
		if h == nil && params.SessionID != "" && s.session(params.SessionID) == nil {
			return rpcFail(req.ID, rpcInvalidParams, "Unknown session_id: "+params.SessionID, nil)
		}
		return rpcFail(req.ID, rpcInternal, "Environment does not support MCP", nil)
	}
	return rpcFail(req.ID, rpcNotFound, "Method not found: "+*req.Method, nil)
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
