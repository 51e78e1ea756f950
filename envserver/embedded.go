package envserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/openenv-go/openenv/provider"
)

// Embedded serves srv in this process, on a fresh loopback port, as a provider of a
// client:
//
//	env, err := openenv.FromProvider(ctx, echo.Spec, envserver.Embedded(srv))
//
// Stop closes the port and the sessions, not srv: it can be started again. One value
// serves one client.
func Embedded(srv *Server) provider.Provider { return &embedded{srv: srv} }

type embedded struct {
	srv    *Server
	http   *http.Server
	served chan error
}

func (e *embedded) Start(ctx context.Context) (provider.Endpoint, error) {
	if e.http != nil {
		return provider.Endpoint{}, errors.New("embedded server is already started")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return provider.Endpoint{}, fmt.Errorf("embedded server: %w", err)
	}
	e.srv.restart()
	e.http = e.srv.httpServer()
	e.served = make(chan error, 1)
	go func() { e.served <- e.http.Serve(l) }()
	return provider.Endpoint{URLs: []string{"http://" + l.Addr().String()}}, nil
}

// WaitReady returns at once: the listener accepts from the moment that it exists.
func (e *embedded) WaitReady(context.Context) error { return nil }

func (e *embedded) Stop(ctx context.Context) error {
	if e.http == nil {
		return nil
	}
	if err := e.srv.Shutdown(ctx); err != nil {
		return err
	}
	closeHTTP(e.http)
	<-e.served //nolint:errcheck // it was told to end
	e.http = nil
	return nil
}
