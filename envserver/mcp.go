package envserver

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/openenv-go/openenv/internal/wire"
)

// noMCP answers an mcp frame for an environment without tools, as the peer does.
func noMCP(data jsontext.Value) []byte {
	var req struct {
		ID json.RawMessage `json:"id"`
	}
	if err := wire.Unmarshal(data, &req, wire.Float64); err != nil || len(req.ID) == 0 {
		req.ID = json.RawMessage("null")
	}
	return []byte(`{"type":"mcp","data":{"jsonrpc":"2.0","id":` + string(req.ID) +
		`,"error":{"code":-32603,"message":"Environment does not support MCP","data":null}}}`)
}
