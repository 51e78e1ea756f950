package clientsuite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
)

// play is a case in progress.
type play struct {
	*testing.T

	target Target
	server Server
}

// options are what a client of the server needs, and more.
func (p *play) options(more []openenv.Option) []openenv.Option {
	return slices.Concat(p.server.Options, more)
}

// client makes a typed client, which is closed at the end of the case.
func (p *play) client(opts ...openenv.Option) *Client {
	p.Helper()
	return open(p, Spec, p.server.URL, opts...)
}

// raw makes a client over raw maps, which is closed at the end of the case.
func (p *play) raw(opts ...openenv.Option) *openenv.GenericClient {
	p.Helper()
	return open(p, openenv.Generic, p.server.URL, opts...)
}

func open[A, O, S any](p *play, spec openenv.Spec[A, O, S], url string, opts ...openenv.Option) *openenv.Client[A, O, S] {
	p.Helper()
	c, err := openenv.New(spec, url, p.options(opts)...)
	if err != nil {
		p.Fatalf("New: %v", err)
	}
	p.Cleanup(func() {
		if err := c.Close(); err != nil {
			p.Errorf("Close: %v", err)
		}
	})
	return c
}

func (p *play) reset(c *Client, params ...openenv.ResetParam) openenv.StepResult[Observation] {
	p.Helper()
	res, err := c.Reset(p.Context(), params...)
	if err != nil {
		p.Fatalf("Reset: %v", err)
	}
	p.wantReady(res)
	return res
}

func (p *play) wantReady(res openenv.StepResult[Observation]) {
	p.Helper()
	if res.Observation.Echoed != "ready" || res.Reward != nil || res.Done {
		p.Errorf("Reset = %+v, want ready, no reward, not done", res)
	}
}

// step takes a step that must be echoed.
func (p *play) step(c *Client, message string) openenv.StepResult[Observation] {
	p.Helper()
	res, err := c.Step(p.Context(), Action{message})
	if err != nil {
		p.Fatalf("Step(%q): %v", message, err)
	}
	if res.Observation.Echoed != message {
		p.Fatalf("Step(%q) echoed %q", message, res.Observation.Echoed)
	}
	return res
}

// steps reads the state, wants that many steps in it, and returns the episode.
func (p *play) steps(c *Client, want int) (episode string) {
	p.Helper()
	state, err := c.State(p.Context())
	if err != nil {
		p.Fatalf("State: %v", err)
	}
	if state.StepCount != want {
		p.Errorf("state has %d steps, want %d", state.StepCount, want)
	}
	if state.EpisodeID == "" {
		p.Error("state has no episode")
	}
	return state.EpisodeID
}

// lost wants an error that says that the session is gone, and whether the call itself
// had been sent.
func (p *play) lost(what string, err error, sent bool) {
	p.Helper()
	var lost *openenv.SessionLostError
	if !errors.As(err, &lost) {
		p.Fatalf("%s: %v (%T), want a *SessionLostError", what, err, err)
	}
	if lost.Sent != sent {
		p.Errorf("%s: %v says sent %v, want %v", what, err, lost.Sent, sent)
	}
}

// afresh wants that c refuses everything but Reset, without asking the server, and
// that Reset starts another episode.
func (p *play) afresh(c *Client) {
	p.Helper()
	_, err := c.Step(p.Context(), Action{"late"})
	p.lost("Step on a lost session", err, false)
	_, err = c.State(p.Context())
	p.lost("State on a lost session", err, false)
	p.reset(c)
	p.step(c, "again")
	p.steps(c, 1)
}

// refused wants an *ExecModeError of that sort.
func (p *play) refused(what string, err error, locked, tried openenv.ExecMode, pending bool) {
	p.Helper()
	var refused *openenv.ExecModeError
	if !errors.As(err, &refused) {
		p.Fatalf("%s: %v (%T), want an *ExecModeError", what, err, err)
	}
	if refused.Locked != locked || refused.Attempted != tried || refused.Pending != pending {
		p.Errorf("%s: %+v, want locked %v, attempted %v, pending %v", what, refused, locked, tried, pending)
	}
}

// failed wants the environment's own error.
func (p *play) failed(what string, err error) {
	p.Helper()
	_ = p.serverError(what, err, openenv.CodeExecution) // wanted, not handled
}

// serverError wants an error frame with that code and returns it.
func (p *play) serverError(what string, err error, code openenv.ErrorCode) *openenv.ServerError {
	p.Helper()
	var se *openenv.ServerError
	if !errors.As(err, &se) {
		p.Fatalf("%s: %v (%T), want a *ServerError", what, err, err)
	}
	if se.Code != code {
		p.Fatalf("%s: %v, want code %s", what, err, code)
	}
	return se
}

// active waits until the server has n sessions, if it tells.
func (p *play) active(n int, within time.Duration) {
	p.Helper()
	if p.server.Active == nil {
		return
	}
	for start := time.Now(); p.server.Active() != n; time.Sleep(time.Millisecond) {
		if time.Since(start) > within {
			p.Fatalf("server has %d sessions after %v, want %d", p.server.Active(), within, n)
		}
	}
}

// soon returns a ctx that ends in the middle of a step that sleeps for a second.
func (p *play) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.Context(), 100*time.Millisecond)
}

// recorder is an interceptor that keeps copies of the raw frames.
type recorder struct {
	mu    sync.Mutex
	calls []recorded
}

type recorded struct {
	op             string
	request, reply frame
	err            error
	sent, received time.Time
}

// frame is a raw frame, decoded.
type frame struct {
	Type string         `json:"type"`
	Data openenv.Object `json:"data"`
}

func (r *recorder) option() openenv.Option {
	return openenv.WithInterceptor(func(ctx context.Context, call *openenv.Call, next func(context.Context) error) error {
		err := next(ctx)
		rec := recorded{op: call.Op, err: err, sent: call.Sent, received: call.Received}
		decodeErr := json.Unmarshal(call.Request, &rec.request)
		if call.Reply != nil {
			decodeErr = errors.Join(decodeErr, json.Unmarshal(call.Reply, &rec.reply))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, rec)
		return errors.Join(err, decodeErr)
	})
}

func (r *recorder) all() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}
