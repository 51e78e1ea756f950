// Package wire is the OpenEnv session protocol as bytes: it encodes and decodes
// the JSON text frames of the /ws socket, for both ends, and holds the one set
// of JSON options that the module uses.
//
// It does no I/O, keeps no state and knows nothing of sessions. The frames are
// those of the Python package openenv 0.10.0 (core/env_server/http_server.py,
// websocket_endpoint); testdata/recorded holds exchanges recorded from it.
package wire

// Frame types. A client sends the first five, a server the last four.
const (
	TypeReset       = "reset"
	TypeStep        = "step"
	TypeState       = "state"
	TypeMCP         = "mcp"
	TypeClose       = "close"
	TypeObservation = "observation"
	TypeError       = "error"
)

// Error codes of an error frame (core/env_server/types.py, WSErrorCode).
const (
	CodeInvalidJSON     = "INVALID_JSON"
	CodeUnknownType     = "UNKNOWN_TYPE"
	CodeValidation      = "VALIDATION_ERROR"
	CodeExecution       = "EXECUTION_ERROR"
	CodeCapacityReached = "CAPACITY_REACHED"
	CodeFactory         = "FACTORY_ERROR"
	CodeSession         = "SESSION_ERROR"
)

// EndsSession reports whether a server closes the socket after an error frame
// with this code: such a frame means that there is no session behind the socket.
func EndsSession(code string) bool {
	return code == CodeCapacityReached || code == CodeFactory || code == CodeSession
}
