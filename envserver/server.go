package envserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openenv-go/openenv"
)

// Server serves one kind of environment. It is an http.Handler for the root of an
// address; Shutdown ends its sessions. All methods are safe for concurrent use.
type Server struct {
	set     *settings
	kind    *kind
	handler http.Handler
	mcp     *standard // the standard protocol on /mcp; nil without tools
	slots   slots
	docs    documents
	metrics *metrics

	instance string        // its name among the servers behind one address
	arrivals atomic.Uint64 // sockets that have come

	mu     sync.Mutex // before hosted.mu
	closed bool
	life   *life
	open   map[string]*hosted
}

// life is what ends with a shutdown. An [Embedded] server that is started again gets
// another one.
type life struct {
	mode     openenv.Mode
	draining context.Context // ends when the server begins to shut down
	drain    context.CancelFunc
	base     context.Context // ends when calls must end
	cancel   context.CancelCauseFunc
	running  sync.WaitGroup // requests that have an environment, sockets among them
	shared   *thread        // of all sessions, with WithSharedThread; guarded by Server.mu
}

func newLife(mode openenv.Mode) *life {
	l := &life{mode: mode}
	l.draining, l.drain = context.WithCancel(context.Background())
	l.base, l.cancel = context.WithCancelCause(withMode(context.Background(), mode))
	return l
}

// ErrServerClosed is the cause of the ctx of an environment whose server shuts down.
var ErrServerClosed = errors.New("server is shutting down")

// bound returns a ctx for a request that ends with the server, too.
func (l *life) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(withMode(ctx, l.mode))
	stop := context.AfterFunc(l.base, func() { cancel(ErrServerClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// New makes a server whose sessions get their environments from build. The schemas
// come from the types; a Spec with functions is refused, since a function cannot be
// described by one. Nothing is built and nothing listens yet.
//
// The ctx of build ends when the client leaves, the server shuts down, or the build is
// over, which may be before the session is: it is for the building alone. Sessions
// build in parallel.
func New[A, O, S any, E Environment[A, O, S]](spec openenv.Spec[A, O, S], build func(context.Context) (E, error), opts ...Option) (*Server, error) {
	s, err := newServer(spec, build, opts)
	if err != nil {
		return nil, fmt.Errorf("envserver.New: %w", err)
	}
	return s, nil
}

func newServer[A, O, S any, E Environment[A, O, S]](spec openenv.Spec[A, O, S], build func(context.Context) (E, error), opts []Option) (*Server, error) {
	set, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	k, err := newKind(spec, build, set)
	if err != nil {
		return nil, err
	}
	if set.maxSessions > 1 && !set.concurrent && !k.concurrent {
		return nil, fmt.Errorf("%d sessions: environment %s does not declare that several of it may live in one process (ConcurrentSessions)", set.maxSessions, k.name)
	}
	s := &Server{set: set, kind: k, slots: slots{limit: set.maxSessions}, life: newLife(set.mode), open: make(map[string]*hosted), instance: rand.Text()}
	s.metrics = newMetrics(s)
	if s.docs, err = newDocuments(k, set); err != nil {
		return nil, err
	}
	if k.hasTools {
		s.mcp = newStandard(s)
	}
	s.handler = s.guard(s.signed(s.routes()))
	return s, nil
}

// ServeHTTP serves the protocol's routes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// ActiveSessions is the number of sessions that hold a slot.
func (s *Server) ActiveSessions() int { return s.slots.active() }

// ListenAndServe serves on addr until ctx ends, then shuts down within [WithGrace] and
// returns nil. An addr without a host is this machine only.
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

// idleConnection is how long a connection may stay open between two requests.
const idleConnection = 2 * time.Minute

// httpServer is the server behind Serve and Embedded.
func (s *Server) httpServer() *http.Server {
	return &http.Server{Handler: s, ReadHeaderTimeout: s.set.headerTimeout, IdleTimeout: idleConnection, ErrorLog: errorLog(s.set.logger)}
}

// closeHTTP ends a server whose sessions have ended: an answer that is being written is
// finished, if that is soon.
func closeHTTP(hs *http.Server) {
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if hs.Shutdown(soon) != nil {
		_ = hs.Close() // its error is that of a listener closed before
	}
}

// Serve serves on l until ctx ends, then shuts down within [WithGrace] and returns
// nil; that calls had to be cancelled is logged. It closes l. A server that was shut
// down returns [ErrServerClosed].
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.isClosed() {
		_ = l.Close() // nothing has used it
		return ErrServerClosed
	}
	hs := s.httpServer()
	served := make(chan error, 1)
	go func() { served <- hs.Serve(l) }()
	var failed error
	select {
	case err := <-served:
		failed = fmt.Errorf("serve %s: %w", l.Addr(), err)
		served <- err
	case <-ctx.Done():
		_ = l.Close() // no new connections from here on
	}
	grace, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.set.grace, errGraceOver)
	defer cancel()
	err := s.Shutdown(grace)
	if errors.Is(err, errGraceOver) {
		s.set.logger.Warn("shutdown cancelled calls in progress", "grace", s.set.grace)
		err = nil // what ran was cancelled, and has ended
	}
	closeHTTP(hs)
	<-served //nolint:errcheck // it was told to end
	return errors.Join(failed, err)
}

var errGraceOver = errors.New("grace period is over")

// Shutdown takes no new sessions, closes those that nothing is asked of, lets calls in
// progress finish and be answered until ctx ends, cancels them then, and returns when
// every environment is closed. The error says that calls were cancelled, or, after some
// seconds more, that environments did not heed it: those are closed when they return.
// It is idempotent.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	l := s.life
	l.drain()
	unused := s.sessions((*hosted).unused)
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var closers sync.WaitGroup
		endAll := func(hs []*hosted) {
			for _, h := range hs {
				closers.Go(func() { h.end(ErrServerClosed) })
			}
		}
		endAll(unused)
		l.running.Wait() // after it nobody makes a session or talks to one
		s.mu.Lock()
		rest, shared := s.sessions((*hosted).managed), l.shared
		s.mu.Unlock()
		endAll(rest)
		closers.Wait()
		shared.stop()
	}()
	select {
	case <-done:
		l.cancel(ErrServerClosed)
		return nil
	case <-ctx.Done():
	}
	l.cancel(ErrServerClosed)
	late := time.NewTimer(cancelGrace)
	defer late.Stop()
	select {
	case <-done:
		return fmt.Errorf("shutdown: calls were cancelled: %w", context.Cause(ctx))
	case <-late.C:
		return fmt.Errorf("shutdown: %w (%d sessions are open)", errStuck, s.ActiveSessions())
	}
}

// cancelGrace is how long a cancelled call may take to return.
const cancelGrace = 5 * time.Second

var errStuck = errors.New("environments do not heed their ctx")

// sessions lists the open sessions that are so; the caller holds mu.
func (s *Server) sessions(so func(*hosted) bool) []*hosted {
	var hs []*hosted
	for _, h := range s.open {
		if so(h) {
			hs = append(hs, h)
		}
	}
	return hs
}

// enter registers a request that has an environment, until its life's running.Done; it
// reports false on a closed server.
func (s *Server) enter() (*life, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.life.running.Add(1)
	return s.life, true
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// restart makes a server that was shut down ready to serve again.
func (s *Server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.closed, s.life = false, newLife(s.set.mode)
	}
}
