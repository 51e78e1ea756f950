// Package standin serves a record as if it were the environment: what was asked then is
// answered as it was then, frame for frame, and anything else with an error that names
// what was expected.
//
//	file, err := record.Load("run.jsonl")
//	http.ListenAndServe("localhost:8000", standin.New(file))
package standin

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/rollout/record"
)

// Server is an http.Handler that plays the episodes of a record. Each is played by the
// first session that asks for it; when all that begin as asked have been played, they
// are played again. All methods are safe for concurrent use.
type Server struct {
	file *record.File

	ctx    context.Context
	cancel context.CancelFunc
	live   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	sockets int
	played  []int // how often each episode was begun
	asked   map[string]int
}

// New makes a server of a record.
func New(file *record.File) *Server {
	s := &Server{file: file, played: make([]int, len(file.Episodes)), asked: map[string]int{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Shutdown ends the sessions and waits for them.
func (s *Server) Shutdown(context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.live.Wait()
	return nil
}

// Unplayed is the numbers of the episodes that nobody has begun.
func (s *Server) Unplayed() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []int
	for i, n := range s.played {
		if n == 0 {
			left = append(left, s.file.Episodes[i].Index)
		}
	}
	return left
}

// ServeHTTP answers a session socket and the HTTP exchanges of the record. Of those that
// a rollout has not, there are /health and /schema.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		number, ok := s.enter()
		if !ok {
			http.Error(w, "stand-in is shut down", http.StatusServiceUnavailable)
			return
		}
		defer s.live.Done()
		s.socket(w, r, number)
		return
	}
	if x := s.recorded(r); x != nil {
		answer(w, x.ContentType, x.Status, x.Body)
		return
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/health":
		answer(w, "application/json", http.StatusOK, []byte(`{"status":"healthy"}`))
	case r.Method == http.MethodGet && r.URL.Path == "/schema" && len(s.file.Header.Schema) > 0:
		answer(w, "application/json", http.StatusOK, s.file.Header.Schema)
	default:
		detail, err := wire.Marshal(map[string]string{"detail": fmt.Sprintf("stand-in: the record has no answer to %s %s", r.Method, r.URL.Path)})
		if err != nil {
			detail = []byte(`{}`)
		}
		answer(w, "application/json", http.StatusNotFound, detail)
	}
}

func answer(w http.ResponseWriter, contentType string, status int, body []byte) {
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // who has left wants no answer
}

// enter takes the number of a new session.
func (s *Server) enter() (number int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, false
	}
	s.live.Add(1)
	s.sockets++
	return s.sockets - 1, true
}

// mostBody is the largest body that is compared with recorded ones.
const mostBody = 1 << 20

// recorded finds the answer to an HTTP request: those to the same one come in their
// order, and the last of them from then on.
func (s *Server) recorded(r *http.Request) *record.HTTP {
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(nil, r.Body, mostBody)); err != nil {
		return nil
	}
	key := r.Method + " " + r.URL.RequestURI() + " " + string(record.Canonical(body.Bytes()))
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *record.HTTP
	n := 0
	for _, x := range s.file.HTTP {
		if x.Method == r.Method && x.Path == r.URL.RequestURI() && bytes.Equal(record.Canonical(x.Request), record.Canonical(body.Bytes())) {
			found = x
			if n++; n > s.asked[key] {
				break
			}
		}
	}
	s.asked[key]++
	return found
}
