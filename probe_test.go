package openenv_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// What a server can do for WithResume, by what it does.
func TestProbeResume(t *testing.T) {
	plain := func(t *testing.T, play func(*openenvtest.Peer)) http.Handler {
		return &keeper{Scripted: openenvtest.Script(t, play)}
	}
	for _, tt := range []struct {
		name   string
		server func(t *testing.T) http.Handler
		want   openenv.ResumeSupport
		fails  string
	}{
		{"agrees to number requests", func(t *testing.T) http.Handler {
			k := &keeper{Scripted: openenvtest.Script(t, numberedAnswer(func(openenvtest.Frame) string { return "" }))}
			k.Subprotocols("openenv.session.v1")
			return k
		}, openenv.ResumeNumbered, ""},
		{"ties sockets to sessions", func(t *testing.T) http.Handler {
			return plain(t, func(p *openenvtest.Peer) {
				if p.Number() == 2 {
					p.Error("SESSION_ERROR", "Session s1 already has an attached WebSocket")
					return
				}
				answer(p)
			})
		}, openenv.ResumeByState, ""},
		{"gives each socket a session of its own", func(t *testing.T) http.Handler { return plain(t, answer) }, openenv.ResumeNone, ""},
		{"makes no sessions over HTTP", func(t *testing.T) http.Handler { return openenvtest.Script(t, answer) }, openenv.ResumeNone, ""},
		{"does not know the method", func(*testing.T) http.Handler {
			return rpcServer(`"error":{"code":-32601,"message":"Method not found"}`)
		}, openenv.ResumeNone, ""},
		{"is full", func(*testing.T) http.Handler {
			return rpcServer(`"error":{"code":-32000,"message":"full","data":{"active_sessions":1,"max_sessions":1}}`)
		}, openenv.ResumeUnknown, "server error CAPACITY_REACHED: full"},
		{"is broken", func(*testing.T) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "it broke", http.StatusInternalServerError)
			})
		}, openenv.ResumeUnknown, "500"},
		{"says nothing", func(t *testing.T) http.Handler {
			return plain(t, func(p *openenvtest.Peer) {
				if p.Number() == 2 {
					p.Silence()
				}
				answer(p)
			})
		}, openenv.ResumeUnknown, "no reply within the message timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := tt.server(t)
				srv := openenvtest.Serve(t, h)
				env := generic(t, srv.URL(), srv.Option(), openenv.WithMessageTimeout(time.Second))
				got, err := openenv.ProbeResume(t.Context(), env)
				if got != tt.want || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("ProbeResume = %s, %v, want %s and %q", got, err, tt.want, tt.fails)
				}
				if tt.name == "is full" && !errors.Is(err, openenv.ErrCapacity) {
					t.Errorf("%v is not ErrCapacity", err)
				}
				if k, ok := h.(*keeper); ok && k.made > 0 && (k.calls[len(k.calls)-1] != "openenv/session/close") {
					t.Errorf("the session is left: %v", k.calls)
				}
				if got := env.SessionID(); got != "" {
					t.Errorf("the client itself got a session: %s", got)
				}
			})
		})
	}
}

// A probe of a closed client asks nothing.
func TestProbeResumeOfAClosedClient(t *testing.T) {
	env := generic(t, "http://host")
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := openenv.ProbeResume(t.Context(), env)
	if got != openenv.ResumeUnknown || !errors.Is(err, openenv.ErrClosed) {
		t.Errorf("ProbeResume = %s, %v", got, err)
	}
}

// rpcServer answers every JSON-RPC request with the same.
func rpcServer(answer string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,` + answer + `}`))
	})
}
