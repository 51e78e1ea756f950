package envserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// fragile panics in the hook that it is told to.
type fragile struct{ in string }

func (f *fragile) hook(name string) {
	if f.in == name {
		panic("boom in " + name)
	}
}

func (f *fragile) ConcurrentSessions() bool { return true }
func (f *fragile) Reset(context.Context, envserver.ResetParams) (labResult, error) {
	f.hook("reset")
	return labResult{}, nil
}

func (f *fragile) Step(_ context.Context, a fragileAction) (openenv.StepResult[fragileObservation], error) {
	f.hook("step")
	return openenv.StepResult[fragileObservation]{Observation: fragileObservation{a.In}}, nil
}

func (f *fragile) State(context.Context) (openenv.State, error) {
	f.hook("state")
	return openenv.State{}, nil
}

func (f *fragile) Close() error {
	f.hook("close")
	return errors.New("cannot close")
}

type (
	fragileAction      struct{ In selfMade }
	fragileObservation struct{ Out selfMade }
	selfMade           string
)

func (s *selfMade) UnmarshalText(text []byte) error {
	if string(text) == "unmarshal" {
		panic("boom in unmarshal")
	}
	*s = selfMade(text)
	return nil
}

func (s selfMade) MarshalText() ([]byte, error) {
	if s == "marshal" {
		panic("boom in marshal")
	}
	return []byte(s), nil
}

// fragileEnv adapts Reset to the observation's type.
type fragileEnv struct{ *fragile }

func (f fragileEnv) Reset(ctx context.Context, p envserver.ResetParams) (openenv.StepResult[fragileObservation], error) {
	_, err := f.fragile.Reset(ctx, p)
	return openenv.StepResult[fragileObservation]{}, err
}

// Report 51: a panic in any hook is answered and ends its own session only; the slot is
// free, and the server goes on.
func TestPanicsAreContained(t *testing.T) {
	const reset, step, state = `{"type":"reset","data":{}}`, `{"type":"step","data":{"In":"x"}}`, `{"type":"state"}`
	for _, tt := range []struct {
		name, in, frame, reply, end string
		path, body                  string
	}{
		{"build", "build", "", "FACTORY_ERROR", "closed 1000", "/state", ""},
		{"reset", "reset", reset, "environment panicked: boom in reset", "closed 1011 environment panicked", "/reset", "{}"},
		{"step", "step", step, "environment panicked: boom in step", "closed 1011 environment panicked", "/step", `{"action":{"In":"x"}}`},
		{"state", "state", state, "environment panicked: boom in state", "closed 1011 environment panicked", "/state", ""},
		{"transform", "transform", step, "environment panicked: boom in transform", "closed 1011 environment panicked", "/step", `{"action":{"In":"x"}}`},
		{"close", "close", `{"type":"close"}`, "closed 1000", "", "", ""},
		{"decoding", "", `{"type":"step","data":{"In":"unmarshal"}}`, "environment panicked: boom in unmarshal", "closed 1011 environment panicked", "/step", `{"action":{"In":"unmarshal"}}`},
		{"decoding another spelling", "", `{ "type":"step","data":{"In":"unmarshal"}}`, "environment panicked: boom in unmarshal", "closed 1011 environment panicked", "", ""},
		{"encoding", "", `{"type":"step","data":{"In":"marshal"}}`, "environment panicked: boom in marshal", "closed 1011 environment panicked", "/step", `{"action":{"In":"marshal"}}`},
	} {
		for _, place := range []struct {
			name string
			opts []envserver.Option
		}{{"", nil}, {" on a thread", []envserver.Option{envserver.WithLockedThread()}}, {" on a shared thread", []envserver.Option{envserver.WithSharedThread()}}} {
			t.Run(tt.name+place.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					leak.Check(t)
					in := ""
					build := func(context.Context) (fragileEnv, error) {
						if in == "build" {
							panic("boom in build")
						}
						return fragileEnv{&fragile{in}}, nil
					}
					transform := func(res openenv.StepResult[fragileObservation]) (openenv.StepResult[fragileObservation], error) {
						if in == "transform" {
							panic("boom in transform")
						}
						return res, nil
					}
					srv, err := envserver.New(openenv.Spec[fragileAction, fragileObservation, openenv.State]{Name: "fragile"}, build,
						append(place.opts, envserver.WithMaxSessions(2), envserver.WithTransform(transform),
							envserver.WithSchema[selfMade](`{"type":"string"}`))...)
					if err != nil {
						t.Fatal(err)
					}
					w := &world{t: t, srv: srv, at: inMemoryServer(t, srv)}
					other := w.dial("")
					other.send(step)
					want(t, other.receive(), `"Out":"x"`)
					in = tt.in
					s := w.dial("")
					if tt.frame != "" {
						s.send(tt.frame)
					}
					want(t, s.receive(), tt.reply)
					if tt.end != "" {
						want(t, s.receive(), tt.end)
					}
					if tt.path != "" {
						if status, body := w.get(tt.path, tt.body); status != 500 || !strings.Contains(body, `"detail"`) {
							t.Errorf("over HTTP: %d %s", status, body)
						}
					}
					in = ""
					settle()
					if n := srv.ActiveSessions(); n != 1 {
						t.Errorf("%d sessions, want the other", n)
					}
					other.send(step)
					want(t, other.receive(), `"Out":"x"`)
					s = w.dial("")
					s.send(step)
					want(t, s.receive(), `"Out":"x"`)
				})
			})
		}
	}
}
