package openenvtest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/memnet"
)

// Server is a running server of a test.
type Server struct {
	url    string
	client *http.Client
}

// URL is the base address for openenv.New.
func (s *Server) URL() string { return s.url }

// Option lets a client reach the server. Without it the address leads nowhere.
func (s *Server) Option() openenv.Option { return openenv.WithHTTPClient(s.client) }

// HTTPClient reaches the server for calls that are not a client's.
func (s *Server) HTTPClient() *http.Client { return s.client }

// shutdowner is a handler that has sessions to end, such as an envserver.Server.
type shutdowner interface {
	Shutdown(ctx context.Context) error
}

// Serve serves h in memory until the test ends. A handler with a Shutdown method is
// shut down then.
func Serve(t testing.TB, h http.Handler) *Server {
	t.Helper()
	l := memnet.Listen()
	transport := l.Transport()
	serve(t, l, h)
	t.Cleanup(transport.CloseIdleConnections)
	return &Server{url: "http://" + l.Addr().String(), client: &http.Client{Transport: transport}}
}

// ServeLoopback serves h on a loopback port until the test ends, for clients that
// are not Go's.
func ServeLoopback(t testing.TB, h http.Handler) *Server {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("openenvtest: %v", err)
	}
	serve(t, l, h)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &Server{url: "http://" + l.Addr().String(), client: &http.Client{Transport: transport}}
}

func serve(t testing.TB, l net.Listener, h http.Handler) {
	hs := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = hs.Serve(l) // ends with ErrServerClosed below
	}()
	t.Cleanup(func() {
		if s, ok := h.(shutdowner); ok {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				t.Errorf("openenvtest: %v", err)
			}
		}
		_ = hs.Close() // nobody is left to answer
		<-served
	})
}
