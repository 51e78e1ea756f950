// Package rpc is the text of JSON-RPC 2.0 as OpenEnv servers speak it on POST /mcp:
// requests are written, responses are read. It does no I/O.
package rpc

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openenv-go/openenv/internal/wire"
)

// The codes that clients tell apart (core/env_server/mcp_types.py, JsonRpcErrorCode).
const (
	CodeNoMethod      = -32601
	CodeInvalidParams = -32602
	CodeInternal      = -32603
	CodeServer        = -32000
)

// Error is an error that the server answered.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *Error) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

// Request is the text of a request. Params are left out when nil.
func Request(id uint64, method string, params any) ([]byte, error) {
	type request struct {
		JSONRPC string `json:"jsonrpc"`
		ID      uint64 `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}
	return wire.Marshal(request{"2.0", id, method, params})
}

// Response reads the response to request id. A server's error is an *Error; an error
// without an id is one about this request, too: nothing else was asked.
func Response(text []byte, id uint64) (json.RawMessage, error) {
	var response struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      *uint64         `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *Error          `json:"error"`
	}
	if err := wire.Unmarshal(text, &response, wire.Float64); err != nil {
		return nil, err
	}
	switch {
	case response.JSONRPC != "2.0":
		return nil, errors.New("not a JSON-RPC 2.0 response")
	case response.Error != nil && response.ID == nil:
		return nil, response.Error
	case response.ID == nil || *response.ID != id:
		return nil, errors.New("response to another request")
	case response.Error != nil:
		return nil, response.Error
	}
	return response.Result, nil
}
