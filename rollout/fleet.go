package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/openenv-go/openenv"
)

// The pauses between two tries at a server that refused or is down: the first, and the
// longest.
const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// pause grows with the tries before it and is a little longer than that by chance.
func pause(tries int) time.Duration {
	d := time.Duration(min(float64(minPause)*math.Pow(2, float64(min(tries, 16))), float64(maxPause)))
	return d + time.Duration(rand.Int64N(int64(d)/4+1))
}

// fleet gives out sessions of several servers. How many a server has room for is
// learned from its refusals; one that cannot be reached gets no sessions until it is
// healthy again.
type fleet[A, O, S any] struct {
	servers  []*server[A, O, S]
	patience time.Duration
	logger   *slog.Logger

	ctx     context.Context // of the probes
	cancel  context.CancelFunc
	probing sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a session may be had that could not before
	allDown time.Time     // since when no session could be opened anywhere; zero: one could
	open    int           // sessions of all servers
}

// server is one of them; the fleet's mutex guards all that changes.
type server[A, O, S any] struct {
	root   *openenv.Client[A, O, S]
	url    string
	schema string // its digest, which it must still have when it comes back
	owned  bool   // started by us, and can be started again

	open, opening int
	limit         int       // sessions that it is known to have room for
	refusals      int       // one after the other
	retryAt       time.Time // when more than limit are tried again
	losses        int       // of sessions, since it was looked at
	down          bool
	failures      int // one after the other
	err           error
}

// lease is a session of a server, until it is given back.
type lease[A, O, S any] struct {
	client *openenv.Client[A, O, S]
	from   *server[A, O, S]
	url    string // which a server that was started again can have changed
}

var (
	errNotWanted   = errors.New("no session is wanted any more")
	errUnreachable = errors.New("no server can be reached")
)

func newFleet[A, O, S any](servers []*server[A, O, S], cfg *Config) *fleet[A, O, S] {
	f := &fleet[A, O, S]{servers: servers, patience: cfg.Patience, logger: cfg.Logger, changed: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(context.Background()) //nolint:gosec // G118: close calls it
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range servers {
		s.limit = math.MaxInt
		if s.err != nil {
			f.eject(s, s.err) // it did not answer at first
		}
	}
	return f
}

// acquire opens a session on the server that has the fewest, and waits for one while
// they are full or down. It fails when ctx ends, when none is wanted any more, and when
// no server could be reached for as long as the fleet has patience.
func (f *fleet[A, O, S]) acquire(ctx context.Context, wanted func() bool) (*lease[A, O, S], error) {
	for {
		if !wanted() {
			return nil, errNotWanted
		}
		s, wait, changed, err := f.choose(time.Now())
		switch {
		case err != nil:
			return nil, err
		case s != nil:
			c, err := f.session(ctx, s)
			if f.opened(ctx, s, err) {
				return &lease[A, O, S]{c, s, c.BaseURL()}, nil
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// session opens a session. A server that has lost one may be another one since.
func (f *fleet[A, O, S]) session(ctx context.Context, s *server[A, O, S]) (*openenv.Client[A, O, S], error) {
	f.mu.Lock()
	losses := s.losses
	f.mu.Unlock()
	if losses > 0 {
		if err := f.check(ctx, s); err != nil {
			return nil, err
		}
		f.mu.Lock()
		s.losses = max(0, s.losses-losses)
		f.mu.Unlock()
	}
	return s.root.NewSession(ctx)
}

// choose takes a place on the least loaded server that may have one, or says how long
// to wait at most.
func (f *fleet[A, O, S]) choose(now time.Time) (best *server[A, O, S], wait time.Duration, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait = f.patience
	if !f.allDown.IsZero() && f.open == 0 {
		wait -= now.Sub(f.allDown)
	}
	if wait <= 0 {
		return nil, 0, nil, f.unreachable()
	}
	for _, s := range f.servers {
		switch full := s.open+s.opening >= s.limit; {
		case s.down:
		case full && s.opening > 0: // its outcome tells more
		case full && now.Before(s.retryAt):
			wait = min(wait, s.retryAt.Sub(now))
		case best == nil || s.open+s.opening < best.open+best.opening:
			best = s
		}
	}
	if best != nil {
		best.opening++
	}
	return best, wait, f.changed, nil
}

// opened notes what became of an opening.
func (f *fleet[A, O, S]) opened(ctx context.Context, s *server[A, O, S], err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.opening--
	defer f.signal()
	switch {
	case err == nil:
		s.open++
		f.open++
		f.allDown = time.Time{}
		s.limit = max(s.limit, s.open)
		s.refusals, s.failures = 0, 0
		return true
	case ctx.Err() != nil:
	case errors.Is(err, openenv.ErrCapacity):
		f.allDown = time.Time{} // it is there
		s.limit = s.open
		s.retryAt = time.Now().Add(pause(s.refusals))
		s.refusals++
	default:
		f.eject(s, err)
	}
	return false
}

// release gives a session back; lost says that it broke. It returns when its socket is
// closed.
func (f *fleet[A, O, S]) release(l *lease[A, O, S], lost bool) {
	if err := l.client.Close(); err != nil {
		f.logger.Warn("closing a session failed", "server", l.from.url, "err", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l.from.open--
	if lost {
		l.from.losses++
	}
	if f.open--; f.open == 0 && !f.allDown.IsZero() {
		f.allDown = time.Now() // patience begins when nothing is left to play with
	}
	f.signal()
}

// signal wakes who waits for a session; the caller holds mu.
func (f *fleet[A, O, S]) signal() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// eject takes a server out until a probe finds it healthy; the caller holds mu.
func (f *fleet[A, O, S]) eject(s *server[A, O, S], err error) {
	s.err = err
	if s.down || f.ctx.Err() != nil {
		return
	}
	s.down = true
	s.failures++
	f.logger.Warn("server is left out", "server", s.url, "err", err)
	up := false
	for _, other := range f.servers {
		up = up || !other.down
	}
	if !up && f.allDown.IsZero() {
		f.allDown = time.Now()
	}
	failures := s.failures
	f.probing.Go(func() { f.probe(s, failures) })
}

// restartAfter is how many probes in a row fail before a server that we started is
// started anew.
const restartAfter = 3

// probe asks a server for its health until it is well. It ends with the fleet.
func (f *fleet[A, O, S]) probe(s *server[A, O, S], failures int) {
	for tries := 0; ; tries++ {
		timer := time.NewTimer(pause(failures - 1 + tries))
		select {
		case <-timer.C:
		case <-f.ctx.Done():
			timer.Stop()
			return
		}
		err := f.check(f.ctx, s)
		if err != nil && s.owned && tries%restartAfter == restartAfter-1 {
			err = f.restart(s)
		}
		f.mu.Lock()
		s.err = err
		if err == nil {
			s.down, s.limit, s.refusals = false, math.MaxInt, 0
			f.signal()
		}
		f.mu.Unlock()
		if err == nil {
			f.logger.Info("server is taken back", "server", s.url)
			return
		}
	}
}

// probeLimit bounds one question for a server's health.
const probeLimit = 10 * time.Second

// check asks for the health and whether it is still the same environment.
func (f *fleet[A, O, S]) check(ctx context.Context, s *server[A, O, S]) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if _, err := s.root.Health(ctx); err != nil {
		return err
	}
	_, digest, err := schemaOf(ctx, s.root)
	if err == nil && digest != s.schema {
		err = fmt.Errorf("%s serves another environment now: its schema was %s and is %s", s.url, s.schema, digest)
	}
	return err
}

// restart stops a server that does not answer and starts it again.
func (f *fleet[A, O, S]) restart(s *server[A, O, S]) error {
	if err := s.root.Close(); err != nil {
		return err
	}
	if err := s.root.Connect(f.ctx); err != nil {
		return err
	}
	return s.root.Disconnect(f.ctx)
}

// unreachable tells of each server why; the caller holds mu.
func (f *fleet[A, O, S]) unreachable() error {
	errs := make([]error, 0, len(f.servers))
	for _, s := range f.servers {
		errs = append(errs, s.err)
	}
	return fmt.Errorf("%w for %v: %w", errUnreachable, f.patience, errors.Join(errs...))
}

// close ends the probes, the sessions that are left, and the servers that were started.
func (f *fleet[A, O, S]) close() error {
	f.cancel()
	f.probing.Wait()
	clients := make([]*openenv.Client[A, O, S], len(f.servers))
	for i, s := range f.servers {
		clients[i] = s.root
	}
	return closeAll(clients)
}
