package rollout

import (
	"context"
	"errors"
	"sync"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/provider"
)

// Target is the servers that a run plays on. They must serve the same environment. The
// zero value has none.
type Target struct {
	urls      []string
	providers []provider.Provider
}

// URLs are servers that run already.
func URLs(urls ...string) Target { return Target{urls: urls} }

// Providers start the servers, one each, when the run begins, and stop them when it
// ends. A server that dies is started again. One value serves one run.
func Providers(ps ...provider.Provider) Target { return Target{providers: ps} }

// Embedded serves environments in this process, each on a loopback port.
func Embedded(servers ...*envserver.Server) Target {
	var t Target
	for _, srv := range servers {
		t.providers = append(t.providers, envserver.Embedded(srv))
	}
	return t
}

// Starts reports that the first server of the target is started, and so can be started
// again: its client does, when it is closed and then connected.
func (t Target) Starts() bool { return len(t.urls) == 0 && len(t.providers) > 0 }

// Open makes a client for each server, and starts those that are to be started. Whoever
// called it closes the clients, which stops those servers. When it fails nothing is left
// running.
func Open[A, O, S any](ctx context.Context, spec openenv.Spec[A, O, S], t Target, opts ...openenv.Option) ([]*openenv.Client[A, O, S], error) {
	clients := make([]*openenv.Client[A, O, S], len(t.urls)+len(t.providers))
	errs := make([]error, len(clients))
	for i, url := range t.urls {
		if url == "" {
			errs[i] = errors.New("target has an empty URL")
			continue
		}
		clients[i], errs[i] = openenv.New(spec, url, opts...)
	}
	var wg sync.WaitGroup
	for i, p := range t.providers {
		at := len(t.urls) + i
		wg.Go(func() { clients[at], errs[at] = start(ctx, spec, p, opts) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if len(clients) == 0 {
		err = errors.New("target has no server")
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(clients))
	}
	return clients, nil
}

// start starts a server. The session that its client opened for that is given back: it
// would hold a place.
func start[A, O, S any](ctx context.Context, spec openenv.Spec[A, O, S], p provider.Provider, opts []openenv.Option) (*openenv.Client[A, O, S], error) {
	c, err := openenv.FromProvider(ctx, spec, p, opts...)
	if err != nil {
		return nil, err
	}
	if err := c.Disconnect(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// closeAll closes clients at once; nil is none.
func closeAll[A, O, S any](clients []*openenv.Client[A, O, S]) error {
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		if c != nil {
			wg.Go(func() { errs[i] = c.Close() })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}
