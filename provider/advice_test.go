package provider_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
	"github.com/openenv-go/openenv/provider"
)

// sandbox is a provider as those of cloud sandboxes are: the address comes with
// headers and with advice.
type sandbox struct{ endpoint provider.Endpoint }

func (s *sandbox) Start(context.Context) (provider.Endpoint, error) { return s.endpoint, nil }
func (*sandbox) WaitReady(context.Context) error                    { return nil }
func (*sandbox) Stop(context.Context) error                         { return nil }

// counter is a server that counts pings and keeps the header of the last upgrade.
type counter struct {
	pings  atomic.Int32
	header atomic.Pointer[http.Header]
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := r.Header.Clone()
	c.header.Store(&header)
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		OnPingReceived: func(context.Context, []byte) bool { c.pings.Add(1); return true },
	})
	if err != nil {
		return
	}
	defer ws.CloseNow()
	for {
		if _, _, err := ws.Read(r.Context()); err != nil {
			return
		}
		if err := ws.Write(r.Context(), websocket.MessageText, []byte(`{"type":"state","data":{}}`)); err != nil {
			return
		}
	}
}

// Report 75: a provider returns headers and keepalive advice with the address. The
// dial carries the one and the pings follow the other, unless an option says more.
func TestHeadersAndKeepaliveAdvice(t *testing.T) {
	for _, tt := range []struct {
		name   string
		advice *provider.Keepalive
		opts   []openenv.Option
		want   int32 // pings in 50 s
	}{
		{"no advice", nil, nil, 2},
		{"off", &provider.Keepalive{}, nil, 0},
		{"often", &provider.Keepalive{Interval: 10 * time.Second, Timeout: 5 * time.Second}, nil, 4},
		{"an option over off", &provider.Keepalive{}, []openenv.Option{openenv.WithPingInterval(15 * time.Second), openenv.WithPingTimeout(5 * time.Second)}, 3},
		{"off over advice", &provider.Keepalive{Interval: time.Second, Timeout: time.Second}, []openenv.Option{openenv.WithPingInterval(0)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				server := &counter{}
				srv := openenvtest.Serve(t, server)
				p := &sandbox{provider.Endpoint{
					URLs:      []string{srv.URL()},
					Headers:   http.Header{"X-Sandbox": {"s-1"}, "X-Mine": {"provider"}},
					Keepalive: tt.advice,
				}}
				opts := append([]openenv.Option{srv.Option(), openenv.WithHeaders(http.Header{"X-Mine": {"option"}})}, tt.opts...)
				env, err := openenv.FromProvider(t.Context(), openenv.Generic, p, opts...)
				if err != nil {
					t.Fatal(err)
				}
				header := *server.header.Load()
				if header.Get("X-Sandbox") != "s-1" || header.Get("X-Mine") != "option" {
					t.Errorf("the dial carried %v", header)
				}
				time.Sleep(50*time.Second - time.Millisecond)
				if got := server.pings.Load(); got != tt.want {
					t.Errorf("%d pings in 50 s, want %d", got, tt.want)
				}
				if err := env.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
