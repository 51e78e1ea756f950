package envserver

import (
	"net/http"

	"github.com/openenv-go/openenv/internal/wire"
)

// signed tells who answers where sessions are made and attached to, so that a client of
// a load balancer notices that another server does than the one that has its session.
func (s *Server) signed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mcp", "/ws":
			w.Header().Set(wire.InstanceHeader, s.instance)
		}
		next.ServeHTTP(w, r)
	})
}
