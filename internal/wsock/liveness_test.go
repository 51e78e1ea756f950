package wsock_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/wsock"
)

// A tunnel that drops pings and pongs, or a peer that is gone without a word.
func TestKeepaliveEndsASilentConnection(t *testing.T) {
	for _, test := range []struct{ interval, timeout time.Duration }{
		{20 * time.Second, 20 * time.Second},
		{50 * time.Millisecond, 50 * time.Millisecond},
		{20 * time.Second, 5 * time.Second},
		{5 * time.Second, 20 * time.Second},
		{time.Second, 2500 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("ping every %v, pong within %v", test.interval, test.timeout), func(t *testing.T) {
			bothRoles(t, memory, func(t *testing.T, as role) {
				leak.Check(t)
				start := time.Now()
				conn, raw := memory.against(t, as, wsock.Options{PingInterval: test.interval, PongTimeout: test.timeout, CloseTimeout: closeTimeout})
				in := receive(conn)
				pings := 0
				for {
					f, err := raw.receive()
					if err != nil {
						break
					}
					if f.op == opPing {
						pings++
					}
					if pings > 10 {
						t.Fatal("the silence is not noticed")
					}
				}
				if err := in.end(t); !errors.Is(err, wsock.ErrKeepalive) {
					t.Errorf("got %v, want %v", err, wsock.ErrKeepalive)
				}
				if passed := time.Since(start); passed != test.interval+test.timeout {
					t.Errorf("ended after %v, want %v", passed, test.interval+test.timeout)
				}
				if pings != 1 {
					t.Errorf("%d pings, want 1", pings)
				}
				if err := conn.Write(t.Context(), []byte("x")); !errors.Is(err, wsock.ErrKeepalive) {
					t.Errorf("write afterwards: got %v, want %v", err, wsock.ErrKeepalive)
				}
			})
		})
	}
}

func TestConnectionLives(t *testing.T) {
	for _, test := range []struct {
		name              string
		interval, timeout time.Duration
		pongs             bool
		wantPings         int // within an hour
	}{
		{"without keepalive", 0, 0, false, 0},
		{"without pings, whatever the timeout", 0, time.Second, false, 0},
		{"with pings that need no answer", time.Minute, 0, false, 60},
		{"with pongs", time.Minute, time.Second, true, 60},
		{"with pongs and a timeout beyond the interval", time.Minute, 10 * time.Minute, true, 60},
	} {
		t.Run(test.name, func(t *testing.T) {
			bothRoles(t, memory, func(t *testing.T, as role) {
				leak.Check(t)
				conn, raw := memory.against(t, as, wsock.Options{PingInterval: test.interval, PongTimeout: test.timeout, CloseTimeout: closeTimeout})
				in := receive(conn)
				var pings int
				var gone sync.WaitGroup
				gone.Go(func() {
					for {
						f, err := raw.receive()
						if err != nil {
							return
						}
						if f.op == opPing {
							pings++
							if test.pongs {
								_ = raw.send(frame{true, opPong, f.payload})
							}
						}
					}
				})
				time.Sleep(time.Hour + time.Second)
				if err := raw.send(frame{true, opText, []byte("still there")}); err != nil {
					t.Fatal(err)
				}
				if got := in.next(t); got != "still there" {
					t.Errorf("got %q", got)
				}
				conn.Abort()
				gone.Wait()
				if pings != test.wantPings {
					t.Errorf("%d pings in an hour, want %d", pings, test.wantPings)
				}
			})
		})
	}
}

// Liveness is any byte: a message that takes long to arrive is no silence, nor
// are the peer's own pings.
func TestAnyByteIsALifeSign(t *testing.T) {
	for _, test := range []struct {
		name string
		send func(raw *rawPeer, tick int) []byte
	}{
		{"a slow download", func(raw *rawPeer, tick int) []byte {
			return raw.append(nil, frame{true, opText, make([]byte, 118)})[tick : tick+1]
		}},
		{"pings of the peer", func(raw *rawPeer, _ int) []byte { return raw.append(nil, frame{true, opPing, nil}) }},
		{"pongs to nothing", func(raw *rawPeer, _ int) []byte { return raw.append(nil, frame{true, opPong, []byte("?")}) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				conn, raw := memory.against(t, asClient, wsock.Options{PingInterval: 5 * time.Second, PongTimeout: 2 * time.Second, CloseTimeout: closeTimeout})
				in := receive(conn)
				go discard(raw) // pings are seen and not answered
				for tick := range 120 {
					time.Sleep(time.Second)
					if _, err := raw.Write(test.send(raw, tick)); err != nil {
						t.Fatalf("after %ds: %v", tick, err)
					}
				}
				last := time.Now()
				if err := in.end(t); !errors.Is(err, wsock.ErrKeepalive) {
					t.Errorf("silence at last: got %v, want %v", err, wsock.ErrKeepalive)
				}
				if passed := time.Since(last); passed > 7*time.Second {
					t.Errorf("silence was noticed after %v", passed)
				}
			})
		})
	}
}

// The caller may think for minutes between two calls; the peer's pings are
// answered all the same, each with its own payload.
func TestPingsAreAnsweredWhileTheOwnerIsIdle(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
		in := receive(conn)
		for i := range 600 {
			time.Sleep(200 * time.Millisecond)
			sent := time.Now()
			if err := raw.send(frame{true, opPing, []byte(strconv.Itoa(i))}); err != nil {
				t.Fatal(err)
			}
			if f, err := raw.receive(); err != nil || f.op != opPong || string(f.payload) != strconv.Itoa(i) || time.Since(sent) > 0 {
				t.Fatalf("ping %d: got %v, %v after %v", i, f, err, time.Since(sent))
			}
		}
		if err := raw.send(frame{true, opText, []byte("hi")}); err != nil || in.next(t) != "hi" {
			t.Errorf("the connection is not of use any more: %v", err)
		}
	})
}

// A peer that floods pings and reads nothing cannot stop us from reading.
func TestPingFloodFromAPeerThatDoesNotRead(t *testing.T) {
	flood := func(t *testing.T, conn *wsock.Conn, raw *rawPeer, pings int) {
		in := receive(conn)
		const batch = 100
		var flood []byte
		for range batch {
			flood = raw.append(flood, frame{true, opPing, bytes.Repeat([]byte("p"), 125)})
		}
		text := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
		start := time.Now()
		go func() {
			for range pings / batch {
				_, _ = raw.Write(flood)
			}
			_ = raw.send(frame{true, opText, text})
		}()
		got := in.next(t)
		if len(got) != len(text) || got != string(text) {
			t.Errorf("%d bytes came as %d", len(text), len(got))
		}
		if passed := time.Since(start); passed > 5*time.Second {
			t.Errorf("the message took %v", passed)
		}
	}
	t.Run("memory", func(t *testing.T) {
		bothRoles(t, memory, func(t *testing.T, as role) {
			leak.Check(t)
			conn, raw := memory.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
			flood(t, conn, raw, 300)
		})
	})
	t.Run("loopback", func(t *testing.T) {
		bothRoles(t, loopback, func(t *testing.T, as role) {
			leak.Check(t)
			conn, raw := loopback.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
			flood(t, conn, raw, 5_000)
		})
	})
}

// The newest ping is the one that is answered when the peer reads again.
func TestOnlyTheNewestPingIsAnswered(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
		receive(conn)
		for i := range 100 {
			if err := raw.send(frame{true, opPing, []byte(strconv.Itoa(i))}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		var pongs []string
		for len(pongs) == 0 || pongs[len(pongs)-1] != "99" {
			f, err := raw.receive()
			if err != nil {
				t.Fatal(err)
			}
			pongs = append(pongs, string(f.payload))
		}
		if len(pongs) > 2 { // the first may have been on its way
			t.Errorf("pongs %v, want the newest alone", pongs)
		}
	})
}

// Replies, pongs and pings of both ends at once: every frame is valid and
// messages come in order.
func TestConcurrentFramesAreValid(t *testing.T) {
	const replies = 10_000
	size := func(i int) int {
		if i%1000 == 0 {
			return 3*wsock.PieceSize + i
		}
		return i % 300
	}
	bothRoles(t, loopback, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := loopback.against(t, as, wsock.Options{PingInterval: time.Millisecond, PongTimeout: time.Minute, CloseTimeout: closeTimeout})
		in := receive(conn)
		stop := make(chan struct{})
		var busy sync.WaitGroup
		defer busy.Wait()
		defer close(stop)
		busy.Go(func() {
			tick := time.NewTicker(100 * time.Microsecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					_ = raw.send(frame{true, opPing, []byte("from the peer")})
				case <-stop:
					return
				}
			}
		})
		busy.Go(func() {
			for i := range replies {
				text := append([]byte(strconv.Itoa(i)), make([]byte, size(i))...)
				if err := conn.Write(t.Context(), text); err != nil {
					t.Errorf("reply %d: %v", i, err)
					return
				}
			}
		})
		var join messages
		var pings, pongs int
		for next := 0; next < replies; {
			f, err := raw.receive()
			if err != nil {
				t.Fatalf("%v; the connection: %v", err, in.end(t))
			}
			switch f.op {
			case opPing:
				pings++
			case opPong:
				pongs++
				if string(f.payload) != "from the peer" {
					t.Fatalf("pong %q", f.payload)
				}
			}
			whole, done, err := join.add(f)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				if n := strconv.Itoa(next); len(whole) != len(n)+size(next) || string(whole[:len(n)]) != n {
					t.Fatalf("reply %d: got %d bytes, %.20q", next, len(whole), whole)
				}
				next++
			}
		}
		if pings == 0 || pongs == 0 {
			t.Errorf("%d pings and %d pongs among the replies: nothing was tested", pings, pongs)
		}
	})
}

// A dial's context bounds the handshake only.
func TestConnectionOutlivesTheDialContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		l := memory.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := wsock.Accept(w, r, wsock.AcceptOptions{}, wsock.Options{CloseTimeout: closeTimeout})
			if err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			in := receive(c)
			for {
				select {
				case text := <-in.texts:
					_ = c.Write(t.Context(), []byte(text))
				case <-in.ended:
					c.Abort()
					return
				}
			}
		}))
		ctx, cancel := contextWithTimeout(t, time.Second)
		conn, err := wsock.Dial(ctx, "ws://server.test/ws", memory.client(t, l), nil, wsock.Options{CloseTimeout: closeTimeout})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		in := receive(conn)
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			if err := conn.Write(t.Context(), []byte("hi")); err != nil {
				t.Fatal(err)
			}
			if got := in.next(t); got != "hi" {
				t.Errorf("got %q", got)
			}
		}
		if err := conn.Close(1000, ""); err != nil {
			t.Error(err)
		}
	})
}
