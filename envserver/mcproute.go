package envserver

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// One route speaks two dialects: the peer's JSON-RPC and, on a server of environments
// with tools, the standard protocol. A request tells which.

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	eventStream   = "text/event-stream"
)

// postMCP is POST /mcp.
func (s *Server) postMCP(w http.ResponseWriter, r *http.Request) {
	body, ok := s.readBody(w, r)
	if !ok {
		return
	}
	if s.mcp != nil && isStandard(r.Header, body) {
		s.mcp.post(w, r, body)
		return
	}
	s.serveRPC(w, r, body)
}

// getMCP is GET /mcp: a socket of the peer's dialect, or the stream of events of a
// standard session.
func (s *Server) getMCP(w http.ResponseWriter, r *http.Request) {
	switch {
	case isUpgrade(r):
		s.serveRPCSocket(w, r)
	case s.mcp != nil && hasStandardHeader(r.Header):
		s.mcp.get(w, r)
	default:
		w.Header().Set("Allow", http.MethodPost) // RFC 9110, 15.5.6, asks for one
		writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// isStandard tells a message of the standard protocol by what its clients must send:
// they take event streams, or are in a session, or begin one. The methods of OpenEnv
// are not the standard's whoever sends them.
func isStandard(h http.Header, body []byte) bool {
	method := methodOf(body)
	switch {
	case strings.HasPrefix(method, "openenv/"):
		return false
	case method == "initialize":
		return true
	}
	return hasStandardHeader(h)
}

func hasStandardHeader(h http.Header) bool {
	if h.Get(sessionHeader) != "" || h.Get(versionHeader) != "" {
		return true
	}
	for _, value := range h.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			if media, _, _ := strings.Cut(part, ";"); strings.EqualFold(strings.TrimSpace(media), eventStream) {
				return true
			}
		}
	}
	return false
}

// methodOf reads the member "method" of a JSON object without reading more than it
// must; empty when there is none.
func methodOf(body []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if dec.PeekKind() != '{' {
		return ""
	}
	if _, err := dec.ReadToken(); err != nil {
		return ""
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() == "method" && dec.PeekKind() == '"' {
			if method, err := dec.ReadToken(); err == nil {
				return method.String()
			}
			return ""
		}
		if dec.SkipValue() != nil {
			return ""
		}
	}
	return ""
}

// serveRPC answers POST /mcp in the peer's dialect. The status is always 200: errors
// are JSON-RPC's. Only a notification has no answer.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request, body []byte) {
	req, fail := parseRPC(body)
	switch {
	case fail != nil:
		writeValue(w, fail)
	case req.notification():
		w.WriteHeader(http.StatusAccepted)
	default:
		resp, _ := s.rpc(r.Context(), req, caller{}) // a panic was that of an environment thrown away
		writeValue(w, resp)
	}
}
