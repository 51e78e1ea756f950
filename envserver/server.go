package envserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/openenv-go/openenv"
)

// Server serves one kind of environment. It is an http.Handler for the root of an
// address; Shutdown ends its sessions.
type Server struct {
	set      *settings
	kind     *kind
	mux      *http.ServeMux
	slots    slots
	metadata []byte
	schema   []byte

	mu       sync.Mutex
	closed   bool
	base     context.Context // ends when sessions must
	cancel   context.CancelCauseFunc
	sessions sync.WaitGroup
}

// ErrServerClosed is the cause of the ctx of an environment whose server shuts down.
var ErrServerClosed = errors.New("server is shutting down")

// New makes a server whose sessions get their environments from build. The schemas
// come from the types; a Spec with functions is refused, since a function cannot be
// described by one. Nothing is built and nothing listens yet.
func New[A, O, S any, E Environment[A, O, S]](spec openenv.Spec[A, O, S], build func(context.Context) (E, error), opts ...Option) (*Server, error) {
	set, err := newSettings(opts)
	if err != nil {
		return nil, fmt.Errorf("envserver.New: %w", err)
	}
	k, err := newKind(spec, build)
	if err != nil {
		return nil, fmt.Errorf("envserver.New: %w", err)
	}
	if set.maxSessions > 1 && !set.concurrent && !k.concurrent {
		return nil, fmt.Errorf("envserver.New: WithMaxSessions(%d): environment %s does not declare that several of it may live in one process (ConcurrentSessions)", set.maxSessions, k.name)
	}
	s := &Server{set: set, kind: k, slots: slots{limit: set.maxSessions}}
	s.base, s.cancel = context.WithCancelCause(context.Background())
	if s.metadata, err = encodeMetadata(set.metadata, k.name); err != nil {
		return nil, fmt.Errorf("envserver.New: metadata: %w", err)
	}
	if s.schema, err = k.schemas(); err != nil {
		return nil, fmt.Errorf("envserver.New: schema: %w", err)
	}
	s.routes()
	return s, nil
}

// ServeHTTP serves the protocol's routes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// ActiveSessions is the number of sessions that hold a slot.
func (s *Server) ActiveSessions() int { return s.slots.active() }

// ListenAndServe serves on addr until ctx ends, then shuts down and returns nil. An
// addr without a host is this machine only.
func (s *Server) ListenAndServe(ctx context.Context, addr string) error {
	l, err := Listen(ctx, addr)
	if err != nil {
		return err
	}
	return s.Serve(ctx, l)
}

// Listen opens a listener as ListenAndServe does: on loopback unless addr names a host.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
}

// Serve serves on l until ctx ends, then shuts down and returns nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{Handler: s, ReadHeaderTimeout: s.set.headerTimeout, ErrorLog: errorLog(s.set.logger)}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(l) }()
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve %s: %w", l.Addr(), err), s.Shutdown(ctx))
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.Shutdown(grace)
	if serr := hs.Shutdown(grace); serr != nil {
		hs.Close()
		err = errors.Join(err, serr)
	}
	<-served
	return err
}

// Shutdown refuses new sessions, ends the ctx of those that run, and returns when
// every environment is closed or ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.cancel(ErrServerClosed)
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.sessions.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shutdown: %d sessions did not end: %w", s.ActiveSessions(), context.Cause(ctx))
	}
}

// enter registers a session goroutine and returns the ctx that ends with the server;
// it reports false on a closed server.
func (s *Server) enter() (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.sessions.Add(1)
	return s.base, true
}

// restart makes a server that was shut down serve again.
func (s *Server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		return
	}
	s.closed = false
	s.base, s.cancel = context.WithCancelCause(context.Background())
}
