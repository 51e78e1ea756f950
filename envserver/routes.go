package envserver

import (
	"log"
	"log/slog"
	"net/http"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, []byte(`{"status":"healthy"}`))
	})
	s.mux.HandleFunc("GET /metadata", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.metadata)
	})
	s.mux.HandleFunc("GET /schema", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.schema)
	})
	s.mux.HandleFunc("GET /ws", s.serveSocket)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeDetail(w, http.StatusNotFound, "Not Found")
	})
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has left; there is nobody to tell
}

// writeDetail answers an error in the peer's form.
func writeDetail(w http.ResponseWriter, status int, detail string) {
	body, err := wire.Marshal(map[string]string{"detail": detail})
	if err != nil {
		body = []byte(`{"detail":"error"}`)
	}
	writeJSON(w, status, body)
}

// encodeMetadata fills in the peer's defaults (env_server/interfaces.py,
// get_metadata). What an environment does not say is null.
func encodeMetadata(m openenv.Metadata, name string) ([]byte, error) {
	if m.Name == "" {
		m.Name = name
	}
	if m.Description == "" {
		m.Description = m.Name + " environment"
	}
	if m.Version == "" {
		m.Version = "1.0.0"
	}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return wire.Marshal(struct {
		Name             string  `json:"name"`
		Description      string  `json:"description"`
		ReadmeContent    *string `json:"readme_content"`
		Version          string  `json:"version"`
		Author           *string `json:"author"`
		DocumentationURL *string `json:"documentation_url"`
	}{m.Name, m.Description, optional(m.ReadmeContent), m.Version, optional(m.Author), optional(m.DocumentationURL)})
}

func errorLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }
