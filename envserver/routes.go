package envserver

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	static := func(pattern, contentType string, body []byte) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(body) // the client has left; there is nobody to tell
		})
	}
	const jsonType = "application/json"
	static("GET /health", jsonType, []byte(`{"status":"healthy"}`))
	static("GET /metadata", jsonType, s.docs.metadata)
	static("GET /schema", jsonType, s.docs.schema)
	static("GET /openapi.json", jsonType, s.docs.openapi)
	static("GET /docs", "text/html; charset=utf-8", s.docs.page)
	mux.Handle("GET /metrics", s.metrics.handler())
	mux.HandleFunc("GET /ws", s.serveSession)
	mux.HandleFunc("GET /mcp", s.getMCP)
	mux.HandleFunc("POST /mcp", s.postMCP)
	if s.mcp != nil {
		mux.HandleFunc("DELETE /mcp", s.mcp.delete)
	}
	if s.set.mode == openenv.ModeSimulation {
		mux.HandleFunc("POST /reset", s.serveReset)
		mux.HandleFunc("POST /step", s.serveStep)
		mux.HandleFunc("GET /state", s.serveState)
	}
	s.taskRoutes(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			w = &noRoute{ResponseWriter: w}
		}
		mux.ServeHTTP(w, r)
	})
}

// noRoute puts what the mux says of a request without a route, 404 or 405, into the
// peer's form.
type noRoute struct{ http.ResponseWriter }

func (n *noRoute) WriteHeader(status int) {
	writeDetail(n.ResponseWriter, status, http.StatusText(status))
}
func (n *noRoute) Write(text []byte) (int, error) { return len(text), nil }

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has left; there is nobody to tell
}

// writeValue answers with v as JSON.
func writeValue(w http.ResponseWriter, v any) {
	body, err := wire.Marshal(v)
	if err != nil {
		writeDetail(w, http.StatusInternalServerError, "answer cannot be encoded: "+err.Error())
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// writeDetail answers an error in the peer's form.
func writeDetail(w http.ResponseWriter, status int, detail any) {
	body, err := wire.Marshal(map[string]any{"detail": detail})
	if err != nil {
		body = []byte(`{"detail":"error cannot be encoded"}`)
	}
	writeJSON(w, status, body)
}

// readBody reads a request's body within the message limit. When it reports false the
// answer has been written.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	from := r.Body
	if s.set.maxMessage > 0 {
		from = http.MaxBytesReader(w, from, s.set.maxMessage)
	}
	conn := http.NewResponseController(w)
	if limit := s.set.headerTimeout; limit > 0 {
		from = &paced{ReadCloser: from, conn: conn, limit: limit}
	}
	body, err := io.ReadAll(from)
	if err == nil {
		_ = conn.SetReadDeadline(time.Time{}) // it stays on what is given up, whose rest net/http would wait for
	}
	var tooBig *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		writeDetail(w, http.StatusRequestTimeout, "body did not arrive in time")
		return nil, false
	case errors.As(err, &tooBig):
		writeDetail(w, http.StatusRequestEntityTooLarge, err.Error())
		return nil, false
	case err != nil:
		writeDetail(w, http.StatusBadRequest, "body cannot be read: "+err.Error())
		return nil, false
	}
	return body, true
}

// paced is a body that must keep coming: each read has its own deadline, so that a
// large body may take its time and one that stops does not hold the connection.
type paced struct {
	io.ReadCloser

	conn  *http.ResponseController
	limit time.Duration
}

func (p *paced) Read(b []byte) (int, error) {
	_ = p.conn.SetReadDeadline(time.Now().Add(p.limit)) // a writer without deadlines is a test's
	return p.ReadCloser.Read(b)
}

func errorLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }
