package openenv_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/memnet"
	"github.com/openenv-go/openenv/openenvtest"
	"github.com/openenv-go/openenv/provider"
)

// deafFor is a server that reads one frame, then nothing (so that no ping is
// answered) for a while, then answers.
func deafFor(d time.Duration) func(*openenvtest.Peer) {
	return func(p *openenvtest.Peer) {
		f, ok := p.Next()
		if !ok {
			return
		}
		p.Stall(d)
		respond(p, f)
		answer(p)
	}
}

// Report: keepalive pings are on and cannot be changed; a tunnel that drops them
// ends a healthy session. Interval and timeout are options, off included; a
// provider's advice counts less than an option and more than the default.
func TestKeepalive(t *testing.T) {
	ms := time.Millisecond
	for _, tt := range []struct {
		name   string
		advice *provider.Keepalive
		opts   []openenv.Option
		stall  time.Duration
		ends   time.Duration // when the call fails, 0 if it does not
	}{
		{"default", nil, nil, time.Hour, 40 * time.Second},
		{"default, short stall", nil, nil, 30 * time.Second, 0},
		{"options", nil, []openenv.Option{openenv.WithPingInterval(50 * ms), openenv.WithPingTimeout(50 * ms)}, time.Hour, 100 * ms},
		{"interval alone", nil, []openenv.Option{openenv.WithPingInterval(time.Second)}, time.Hour, 21 * time.Second},
		{"off", nil, []openenv.Option{openenv.WithPingInterval(0)}, 10 * time.Minute, 0},
		{"pings without a timeout", nil, []openenv.Option{openenv.WithPingTimeout(0)}, 10 * time.Minute, 0},
		{"advice", &provider.Keepalive{Interval: time.Second, Timeout: time.Second}, nil, time.Hour, 2 * time.Second},
		{"advice: off", &provider.Keepalive{}, nil, 10 * time.Minute, 0},
		{"option over advice", &provider.Keepalive{Interval: time.Second, Timeout: time.Second},
			[]openenv.Option{openenv.WithPingInterval(10 * time.Second), openenv.WithPingTimeout(5 * time.Second)}, time.Hour, 15 * time.Second},
		{"option off over advice", &provider.Keepalive{Interval: time.Second, Timeout: time.Second}, []openenv.Option{openenv.WithPingInterval(0)}, 10 * time.Minute, 0},
	} {
		for _, who := range []string{"client", "child"} {
			t.Run(tt.name+"/"+who, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					admitted := false
					srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
						if who == "child" && !admitted {
							admitted = true
							reply(p)
						}
						deafFor(tt.stall)(p)
					}))
					fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}, Keepalive: tt.advice}}
					env := generic(t, "", append([]openenv.Option{srv.Option(), openenv.WithProvider(fake), openenv.WithMessageTimeout(0)}, tt.opts...)...)
					if who == "child" {
						child, err := env.NewSession(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						env = child
					}
					var err error
					took := after(func() { _, err = env.Step(t.Context(), do(1)) })
					if tt.ends == 0 {
						if err != nil {
							t.Errorf("after %v: %v", took, err)
						}
						return
					}
					isLost(t, err)
					if !strings.Contains(err.Error(), "keepalive timeout") || took != tt.ends {
						t.Errorf("after %v, want %v: %v", took, tt.ends, err)
					}
				})
			})
		}
	}
}

// Report: idle gap of minutes between two steps. The peer's pings are answered while
// the caller thinks, on the same connection.
func TestIdleGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var pings atomic.Int32
		srv := openenvtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer ws.CloseNow()
			answers := make(chan struct{})
			go func() {
				defer close(answers)
				for {
					if _, _, err := ws.Read(context.Background()); err != nil {
						return
					}
					if err := ws.Write(context.Background(), websocket.MessageText, []byte(`{"type":"observation","data":{"observation":{},"reward":null,"done":false}}`)); err != nil {
						return
					}
				}
			}()
			for {
				select {
				case <-answers:
					return
				case <-time.After(20 * time.Second):
				}
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				err := ws.Ping(ctx)
				cancel()
				if err != nil {
					return
				}
				pings.Add(1)
			}
		}))
		env := generic(t, srv.URL(), srv.Option(), openenv.WithPingInterval(0))
		mustReset(t, env)
		time.Sleep(30 * time.Minute)
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Error(err)
		}
		if pings.Load() < 80 {
			t.Errorf("%d pings answered", pings.Load())
		}
	})
}

// throttle is a connection that a message crawls through.
type throttle struct {
	net.Conn
	rate int // bytes a second towards the client
}

func (c *throttle) Read(p []byte) (int, error) {
	if len(p) > c.rate {
		p = p[:c.rate]
	}
	n, err := c.Conn.Read(p)
	if n > 1000 {
		time.Sleep(time.Second)
	}
	return n, err
}

// Liveness is any byte: a download that takes longer than the pong timeout, during
// which no pong can come, is not a dead connection.
func TestSlowDownloadIsAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		script := openenvtest.Script(t, func(p *openenvtest.Peer) {
			p.Expect("step")
			p.Oversize(300_000)
			answer(p)
		})
		l := memnet.Listen()
		hs := &http.Server{Handler: script}
		var served sync.WaitGroup
		served.Go(func() { _ = hs.Serve(l) })
		t.Cleanup(func() {
			_ = script.Shutdown(context.Background())
			hs.Close()
			served.Wait()
		})
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := l.Dial(ctx)
			return &throttle{conn, 5000}, err
		}}
		env := generic(t, "http://"+l.Addr().String(), openenv.WithHTTPClient(&http.Client{Transport: transport}),
			openenv.WithPingInterval(2*time.Second), openenv.WithPingTimeout(5*time.Second), openenv.WithMessageTimeout(0))
		var err error
		took := after(func() { _, err = env.Step(t.Context(), do(1)) })
		if err != nil || took < 20*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// Without pings and without traffic nothing is sent at all.
func TestNoPingsMeansNoTraffic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{OnPingReceived: func(context.Context, []byte) bool {
				t.Error("ping received")
				return true
			}})
			if err != nil {
				return
			}
			defer ws.CloseNow()
			for {
				if _, _, err := ws.Read(context.Background()); err != nil {
					return
				}
				_ = ws.Write(context.Background(), websocket.MessageText, []byte(`{"type":"observation","data":{"observation":{},"reward":null,"done":false}}`))
			}
		}))
		fake := &fakeProvider{endpoint: provider.Endpoint{URLs: []string{srv.URL()}, Keepalive: &provider.Keepalive{}}}
		env := generic(t, "", srv.Option(), openenv.WithProvider(fake))
		mustReset(t, env)
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Error(err)
		}
	})
}
