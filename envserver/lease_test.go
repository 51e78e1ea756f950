package envserver_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// A session made over HTTP waits for its client as long as its lease says, counted from
// its client's last sign of life.
func TestLease(t *testing.T) {
	const lease = 2 * time.Minute // the default
	for _, tt := range []struct {
		name  string
		opts  []envserver.Option
		use   func(w *world, id string) // ends with the last sign of life
		lasts time.Duration             // after use
		cause string                    // of the ctx of a call that was running
	}{
		{name: "a lost socket with numbers", lasts: lease, use: func(w *world, id string) {
			s := w.attach(id)
			s.ask(stepNo(1, "x", 0))
			_ = s.ws.CloseNow()
		}},
		{name: "a lost plain socket", lasts: lease, use: func(w *world, id string) {
			s := w.dial("?session_id=" + id)
			s.do("x", 0)
			_ = s.ws.CloseNow()
		}},
		{name: "a closed socket", lasts: lease, use: func(w *world, id string) {
			s := w.attach(id)
			settle()
			_ = s.ws.Close(websocket.StatusNormalClosure, "")
		}},
		{name: "a socket that rested for long, then lost", lasts: lease, use: func(w *world, id string) {
			s := w.attach(id)
			s.ask(stepNo(1, "x", 0))
			time.Sleep(time.Hour)
			s.ask(stepNo(2, "x", 0))
			_ = s.ws.CloseNow()
		}},
		{name: "lost again and again, in time", lasts: lease, use: func(w *world, id string) {
			for i := range 10 {
				s := w.attach(id)
				want(w.t, s.ask(stepNo(i+1, "x", 0)), fmt.Sprintf(`"n":%d`, i+1))
				_ = s.ws.CloseNow()
				settle()
				if i < 9 {
					time.Sleep(lease - time.Second)
				}
			}
		}},
		{name: "lost in a call", lasts: lease, cause: "[client did not come back within the lease]", use: func(w *world, id string) {
			s := w.attach(id)
			s.send(stepNo(1, "sleep", 3_600_000))
			time.Sleep(time.Second)
			_ = s.ws.CloseNow()
		}},
		{name: "lost in a call, as a plain socket", lasts: lease, cause: "[client did not come back within the lease]", use: func(w *world, id string) {
			s := w.dial("?session_id=" + id)
			s.send(stepFrame("sleep", 3_600_000))
			time.Sleep(time.Second)
			_ = s.ws.CloseNow()
		}},
		{name: "taken over in a call, then lost", lasts: lease, cause: "[client did not come back within the lease]", use: func(w *world, id string) {
			w.attach(id).send(stepNo(1, "sleep", 3_600_000))
			time.Sleep(time.Second)
			s := w.attach(id)
			time.Sleep(time.Hour / 2)
			_ = s.ws.CloseNow()
		}},
		{name: "lost in a call that ends in time", lasts: lease + time.Minute, use: func(w *world, id string) {
			s := w.attach(id)
			s.send(stepNo(1, "sleep", 61_000))
			time.Sleep(time.Second)
			_ = s.ws.CloseNow()
		}},
		{name: "never attached", lasts: 5 * lease, use: func(*world, string) {}},
		{name: "never attached, called over HTTP", lasts: 5 * lease, use: func(w *world, id string) {
			time.Sleep(4 * lease)
			w.rpc("tools/list", `{"session_id":"`+id+`"}`)
		}},
		{name: "lost, called over HTTP", lasts: lease, use: func(w *world, id string) {
			w.attachAndCut(id)
			time.Sleep(lease - time.Second)
			w.rpc("tools/list", `{"session_id":"`+id+`"}`)
		}},
		{name: "another lease", opts: []envserver.Option{envserver.WithLease(time.Second)}, lasts: time.Second, use: func(w *world, id string) {
			w.attachAndCut(id)
		}},
		{name: "an idle limit that is shorter", opts: []envserver.Option{envserver.WithIdleTimeout(time.Minute)}, lasts: time.Minute, use: func(w *world, id string) {
			w.attachAndCut(id)
		}},
		{name: "an idle limit that is longer", opts: []envserver.Option{envserver.WithIdleTimeout(time.Hour)}, lasts: lease, use: func(w *world, id string) {
			w.attachAndCut(id)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				w := inMemory(t, append(tt.opts, envserver.WithKeepalive(0, 0))...)
				id := w.create()
				tt.use(w, id)
				settle()
				time.Sleep(tt.lasts - 50*time.Millisecond)
				if n := w.srv.ActiveSessions(); n != 1 {
					t.Fatal("the session has ended too early")
				}
				time.Sleep(100 * time.Millisecond)
				if n := w.srv.ActiveSessions(); n != 0 {
					t.Fatal("the session is still there")
				}
				want(t, w.attach(id).receive(), "Unknown session_id: "+id)
				if tt.cause != "" {
					w.canceledBy(t, strings.Trim(tt.cause, "[]"))
				}
				w.check(t, 1)
			})
		})
	}
}

// attachAndCut puts a socket on a session and loses it.
func (w *world) attachAndCut(id string) {
	w.t.Helper()
	s := w.attach(id)
	settle()
	_ = s.ws.CloseNow()
}

// Without a lease a session waits for ever, and a shutdown ends it.
func TestNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithLease(0))
		id := w.create()
		w.attachAndCut(id)
		w.create()
		time.Sleep(1000 * time.Hour)
		if n := w.srv.ActiveSessions(); n != 2 {
			t.Errorf("%d sessions are open, want 2", n)
		}
		w.shutdown()
		w.check(t, 2)
	})
}

// The end of a lease is logged and counted. A session of its own has no lease: it ends
// with its socket.
func TestAnExpiredLeaseIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		var log bytes.Buffer
		w := inMemory(t, envserver.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), envserver.WithKeepalive(0, 0))
		own := w.dial("")
		id := w.create()
		w.attachAndCut(id)
		time.Sleep(time.Hour)
		want(t, own.do("x", 0), `"n":1`)
		want(t, log.String(), `level=INFO msg="lease expired" session=`+id)
		_, metrics := w.get("/metrics", "")
		want(t, metrics, "openenv_sessions_expired_total 1", "openenv_sessions_active 1")
		w.shutdownWith(own)
		w.check(t, 2)
	})
}

// serverOfTheClient holds the address of the server that a client in another process
// plays on.
const serverOfTheClient = "OPENENV_TEST_SERVER"

// A client that is killed leaves nothing behind: its slot is free within the lease.
func TestAKilledClientFreesItsSlot(t *testing.T) {
	if at := os.Getenv(serverOfTheClient); at != "" {
		beKilled(t, at)
		return
	}
	leak.Check(t)
	const lease = 300 * time.Millisecond
	w := &world{lab: new(lab), t: t}
	w.srv = w.server(t, envserver.WithLease(lease))
	w.at = servedOnLoopback(t, w.srv)
	id := w.create()
	client := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAKilledClientFreesItsSlot$")
	client.Env = append(os.Environ(), serverOfTheClient+"=ws"+strings.TrimPrefix(w.at.URL(), "http")+"/ws?session_id="+id)
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it plays
		t.Fatal(err)
	}
	if err := client.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	_ = client.Wait() // it was killed
	for w.srv.ActiveSessions() != 0 {
		if time.Since(killed) > 20*lease { // of a busy machine
			t.Fatal("the slot is still taken")
		}
		time.Sleep(lease / 10)
	}
	if d := time.Since(killed); d < lease/2 {
		t.Errorf("the slot was free after %v, before the lease was over", d)
	}
	w.shutdown()
	w.check(t, 1)
}

// beKilled is in the middle of a long step when its process ends.
func beKilled(t *testing.T, at string) {
	ws, _, err := websocket.Dial(context.Background(), at, &websocket.DialOptions{Subprotocols: []string{sessionV1}})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t, ws}
	s.ask(stepNo(1, "x", 0))
	s.send(stepNo(2, "sleep", 3_600_000))
	fmt.Println("ready")
	s.receive()
}

func TestLimitsBelowZeroAreRefused(t *testing.T) {
	for want, opt := range map[string]envserver.Option{
		"WithLease: negative duration -1ns": envserver.WithLease(-1),
		"WithReplyBuffer: negative size -1": envserver.WithReplyBuffer(-1),
	} {
		if _, err := envserver.New(labSpec, new(lab).make, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
