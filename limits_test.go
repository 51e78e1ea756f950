package openenv_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// Report: large observations close the connection. The default limit is 100 MiB, a
// limit of one's own is met exactly, 0 is none.
func TestMessageSizes(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []openenv.Option
		size int // of the whole frame
		ok   bool
	}{
		{"above the library's own limit", nil, 32769, true},
		{"1 MiB and a byte", nil, 1<<20 + 1, true},
		{"at a limit", []openenv.Option{openenv.WithMaxMessageSize(10000)}, 10000, true},
		{"above a limit", []openenv.Option{openenv.WithMaxMessageSize(10000)}, 10001, false},
		{"no limit", []openenv.Option{openenv.WithMaxMessageSize(0)}, 2 << 20, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, _ := scripted(t, func(p *openenvtest.Peer) {
					p.Expect("step")
					frame := `{"type":"observation","data":{"observation":{"x":""},"reward":1,"done":false}}`
					p.Send(strings.Replace(frame, `""`, `"`+strings.Repeat("x", tt.size-len(frame))+`"`, 1))
					answer(p)
				}, tt.opts...)
				res, err := env.Step(t.Context(), do(1))
				if tt.ok {
					if text, _ := res.Observation["x"].(string); err != nil || len(text) != tt.size-78 {
						t.Errorf("%d bytes, %v", len(text), err)
					}
					return
				}
				big := as[*openenv.MessageTooBigError](t, "Step", err)
				if big.Side != openenv.SideLocal || big.Limit != 10000 {
					t.Errorf("%+v", big)
				}
				isLost(t, err)
			})
		})
	}
}

// 99 MiB, over a real socket.
func TestVeryLargeObservation(t *testing.T) {
	leak.Check(t)
	srv := openenvtest.ServeLoopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		if _, _, err := ws.Read(r.Context()); err != nil {
			return
		}
		out, _ := ws.Writer(r.Context(), websocket.MessageText)
		_, _ = out.Write([]byte(`{"type":"observation","data":{"observation":{"x":"`))
		piece := []byte(strings.Repeat("x", 1<<20))
		for range 99 {
			_, _ = out.Write(piece)
		}
		_, _ = out.Write([]byte(`"},"reward":null,"done":false}}`))
		_ = out.Close()
		_, _, _ = ws.Read(r.Context())
	}))
	env := generic(t, srv.URL())
	res, err := env.Reset(t.Context())
	if text, _ := res.Observation["x"].(string); err != nil || len(text) != 99<<20 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// Report: the caller cannot tell whose limit was hit. The server's shows as close
// code 1009, though the client was still writing.
func TestServersLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer ws.CloseNow()
			ws.SetReadLimit(1 << 20)
			_, _, _ = ws.Read(r.Context())
		}))
		env := generic(t, srv.URL(), srv.Option())
		_, err := env.Step(t.Context(), openenv.Object{"x": strings.Repeat("x", 3<<20)})
		big := as[*openenv.MessageTooBigError](t, "Step", err)
		if big.Side != openenv.SideRemote || !strings.Contains(err.Error(), "server's limit") {
			t.Errorf("%v (%+v)", err, big)
		}
		lost := as[*openenv.SessionLostError](t, "Step", err)
		if !lost.Sent {
			t.Errorf("%+v", lost)
		}
	})
}

// Report: a timeout of 0 makes every request fail at once. It is no limit.
func TestZeroTimeoutsAreNoLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		env, _ := scripted(t, (&record{}).play(24*time.Hour), openenv.WithMessageTimeout(0), openenv.WithConnectTimeout(0),
			openenv.WithPingInterval(0), openenv.WithPingTimeout(0), openenv.WithStartTimeout(0), openenv.WithStopTimeout(0))
		if _, err := env.Step(t.Context(), do(1)); err != nil {
			t.Error(err)
		}
	})
}

// Report: replies, pings and closes written by different goroutines garble frames,
// and a ping flood stalls both ends. A step of a megabyte passes through one.
func TestPingFlood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := openenvtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer ws.CloseNow()
			ws.SetReadLimit(-1)
			stop := make(chan struct{})
			flooded := make(chan struct{})
			go func() {
				defer close(flooded)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					go func() { _ = ws.Ping(r.Context()) }()
				}
			}()
			for {
				_, data, err := ws.Read(r.Context())
				if err != nil {
					break
				}
				reply := fmt.Sprintf(`{"type":"observation","data":{"observation":{"bytes":%d},"reward":null,"done":false}}`, len(data))
				if ws.Write(r.Context(), websocket.MessageText, []byte(reply)) != nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			close(stop)
			<-flooded
		}))
		env := generic(t, srv.URL(), srv.Option())
		for i := range 100 {
			size := 10
			if i%25 == 0 {
				size = 1 << 20
			}
			res, err := env.Step(t.Context(), openenv.Object{"x": strings.Repeat("x", size)})
			if err != nil || res.Observation["bytes"] != float64(size+36-5) {
				t.Fatalf("step %d: %v, %v", i, res, err)
			}
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// Numbers in raw maps: float64, or every digit kept.
func TestNumbers(t *testing.T) {
	for name, opts := range map[string][]openenv.Option{"float64": nil, "json.Number": {openenv.WithNumbers()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				env, _ := scripted(t, func(p *openenvtest.Peer) {
					p.Expect("reset")
					p.Send(`{"type":"observation","data":{"observation":{"id":12345678901234567890},"reward":0.5,"done":false,"metadata":{"n":12345678901234567890}}}`)
					answer(p)
				}, opts...)
				res, err := env.Reset(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range []any{res.Observation["id"], res.Metadata["n"]} {
					if got := fmt.Sprintf("%T", v); got != name {
						t.Errorf("a %s, want %s", got, name)
					}
				}
				if res.Reward == nil || *res.Reward != 0.5 {
					t.Errorf("reward %v", res.Reward)
				}
			})
		})
	}
}

// Compression is off unless it is asked for.
func TestCompression(t *testing.T) {
	for _, on := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			offered := ""
			env, _ := scripted(t, func(p *openenvtest.Peer) {
				offered = p.Request().Header.Get("Sec-WebSocket-Extensions")
				answer(p)
			}, openenv.WithCompression(on))
			mustReset(t, env)
			if strings.Contains(offered, "permessage-deflate") != on {
				t.Errorf("compression %v: offered %q", on, offered)
			}
		})
	}
}
