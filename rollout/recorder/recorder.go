package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/stats"
)

// Recorder is an http.Handler that forwards everything to one server. All methods are
// safe for concurrent use.
type Recorder struct {
	base    *netx.Base
	out     *record.Writer
	logger  *slog.Logger
	forward *httputil.ReverseProxy
	dialer  *http.Client

	mu       sync.Mutex
	sessions int
	closed   bool
	err      error
	added    []float64              // milliseconds that messages were held up
	leaving  map[chan struct{}]bool // sessions whose client has left; closed when the server knows
	running  sync.WaitGroup
	ctx      context.Context // of the sessions
	cancel   context.CancelFunc
}

// Option configures a recorder.
type Option func(*Recorder)

// WithLogger tells of sessions that came to an end, and of what could not be written.
func WithLogger(l *slog.Logger) Option { return func(r *Recorder) { r.logger = l } }

// New makes a recorder for the server at upstream. It does no I/O. out stays the
// caller's, who closes it after Shutdown.
func New(upstream string, out *record.Writer, opts ...Option) (*Recorder, error) {
	base, err := netx.ParseBase(upstream)
	if err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("recorder: http.DefaultTransport was replaced by another type")
	}
	policy := netx.ProxyFromEnvironment()
	r := &Recorder{
		leaving: map[chan struct{}]bool{},
		base:    base, out: out, logger: slog.New(slog.DiscardHandler),
		dialer: &http.Client{Transport: upgraded{netx.UpgradeTransport(transport, policy)}, CheckRedirect: noRedirect},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.forward = &httputil.ReverseProxy{
		Rewrite:   r.rewrite,
		Transport: &taking{netx.HTTPTransport(transport, policy), r},
	}
	for _, o := range opts {
		o(r)
	}
	r.forward.ErrorLog = slog.NewLogLogger(r.logger.Handler(), slog.LevelWarn)
	return r, nil
}

// rewrite leaves a request as it is, but for where it goes.
func (r *Recorder) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL = r.target(p.In)
	p.Out.Host = ""
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := p.In.Header[name]; ok {
			p.Out.Header[name] = values
		}
	}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ServeHTTP forwards a request, and a session until it ends.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		r.forward.ServeHTTP(w, req)
		return
	}
	number, ok := r.enter()
	if !ok {
		http.Error(w, "recorder is shut down", http.StatusServiceUnavailable)
		return
	}
	defer r.running.Done()
	r.session(w, req, number)
}

// enter takes the number of a new session.
func (r *Recorder) enter() (number int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, false
	}
	r.running.Add(1)
	r.sessions++
	return r.sessions - 1, true
}

// Shutdown ends the sessions and returns when they are on file. The error is the first
// that a session could not be written with.
func (r *Recorder) Shutdown(context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.running.Wait()
	r.dialer.CloseIdleConnections()
	if t, ok := r.forward.Transport.(*taking); ok {
		t.close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Sessions is the number of sessions so far.
func (r *Recorder) Sessions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions
}

// Added is how long messages were held up, in milliseconds: from the last byte of a
// message received to the last one sent on.
func (r *Recorder) Added() stats.Distribution {
	r.mu.Lock()
	defer r.mu.Unlock()
	return stats.Describe(r.added)
}

// left notes that the client of a session has left; the server has been told when told
// is called.
func (r *Recorder) left() (told func()) {
	done := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving[done] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.leaving, done)
		close(done)
	}
}

// settle waits until the server knows of all who have left: a client that closes one
// session and opens the next finds the place free that it would find without us.
func (r *Recorder) settle(ctx context.Context) {
	r.mu.Lock()
	leaving := slices.Collect(maps.Keys(r.leaving))
	r.mu.Unlock()
	for _, done := range leaving {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// mostAdded bounds what is kept of the delays.
const mostAdded = 1 << 16

func (r *Recorder) delayed(millis []float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.added = append(r.added, millis...)
	if over := len(r.added) - mostAdded; over > 0 {
		r.added = append(r.added[:0], r.added[over:]...)
	}
}

// failed keeps the first error of the file.
func (r *Recorder) failed(err error) {
	if err == nil {
		return
	}
	r.logger.Error("recording failed", "err", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// target is the server's address for a request, with the path and query of both.
func (r *Recorder) target(req *http.Request) *url.URL {
	u := r.base.HTTP(req.URL.EscapedPath())
	switch {
	case u.RawQuery == "":
		u.RawQuery = req.URL.RawQuery
	case req.URL.RawQuery != "":
		u.RawQuery += "&" + req.URL.RawQuery
	}
	return u
}
