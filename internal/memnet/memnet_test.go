package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/memnet"
)

// bothClocks runs test with real time and inside a bubble.
func bothClocks(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("real time", test)
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, test) })
}

// serve runs h on a new listener; all is closed when the test ends.
func serve(t *testing.T, h http.Handler) (*memnet.Listener, *http.Client) {
	t.Helper()
	l := memnet.Listen()
	srv := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	transport := l.Transport()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: got %v, want %v", err, http.ErrServerClosed)
		}
	})
	return l, &http.Client{Transport: transport}
}

func TestHTTPRoundTrip(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		leak.Check(t)
		l, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Millisecond)
			if _, _, err := net.SplitHostPort(r.RemoteAddr); err != nil {
				t.Errorf("remote address %q: %v", r.RemoteAddr, err)
			}
			if _, err := io.Copy(w, r.Body); err != nil {
				t.Errorf("echo: %v", err)
			}
		}))
		want := strings.Repeat("0123456789", 100_000)
		for range 3 { // the connection is kept and used again
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), strings.NewReader(want))
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if string(got) != want {
				t.Fatalf("echo of %d bytes came back as %d", len(want), len(got))
			}
		}
	})
}

func TestWebSocketRoundTrip(t *testing.T) {
	bothClocks(t, func(t *testing.T) {
		leak.Check(t)
		handlerDone := make(chan struct{})
		l, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(handlerDone)
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			defer c.CloseNow()
			for {
				kind, data, err := c.Read(r.Context())
				if err != nil {
					if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
						t.Errorf("server read: %v", err)
					}
					return
				}
				if err := c.Write(r.Context(), kind, data); err != nil {
					t.Errorf("server write: %v", err)
					return
				}
			}
		}))
		c, _, err := websocket.Dial(t.Context(), "ws://"+l.Addr().String(), &websocket.DialOptions{HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		for _, want := range []string{"hi", "", strings.Repeat("x", 30_000)} {
			if err := c.Write(t.Context(), websocket.MessageText, []byte(want)); err != nil {
				t.Fatal(err)
			}
			_, got, err := c.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != want {
				t.Fatalf("echo of %d bytes came back as %d", len(want), len(got))
			}
		}
		if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Fatal(err)
		}
		<-handlerDone
	})
}

// An hour of waiting on a silent connection costs nothing in a bubble: the
// proof that a blocked read lets the clock go on.
func TestBubbleClockRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		defer l.Close()
		accepted := accept(l)
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer (<-accepted).Close()
		if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		_, err = c.Read(make([]byte, 1))
		if nerr, ok := errors.AsType[net.Error](err); !ok || !nerr.Timeout() {
			t.Errorf("read past the deadline: got %v, want a timeout", err)
		}
	})
}

// accept takes one connection in the background.
func accept(l *memnet.Listener) <-chan net.Conn {
	conns := make(chan net.Conn, 1)
	go func() {
		defer close(conns)
		if c, err := l.Accept(); err == nil {
			conns <- c
		}
	}()
	return conns
}

func TestCloseUnblocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		dialed, accepted := make(chan error, 1), make(chan error, 1)
		go func() { _, err := l.Dial(t.Context()); dialed <- err }()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-dialed; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("waiting dial: got %v, want %v", err, syscall.ECONNREFUSED)
		}

		l = memnet.Listen()
		go func() { _, err := l.Accept(); accepted <- err }()
		synctest.Wait()
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("waiting accept: got %v, want %v", err, net.ErrClosed)
		}

		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: got %v, want %v", err, net.ErrClosed)
		}
		if _, err := l.DialContext(t.Context(), "tcp", "elsewhere:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial after close: got %v, want %v", err, syscall.ECONNREFUSED)
		}
	})
}

func TestDialEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.Dial(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody accepts: got %v, want %v", err, context.DeadlineExceeded)
		}
		if nerr, ok := errors.AsType[net.Error](err); !ok || !nerr.Timeout() {
			t.Errorf("nobody accepts: %v is not a network timeout", err)
		}
		if _, err := l.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("context already over: got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestConnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		accepted := accept(l)
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := <-accepted
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		go func() {
			if _, err := s.Write([]byte("x")); err != nil {
				t.Errorf("write after the listener's close: %v", err)
			}
			s.Close()
		}()
		buf := make([]byte, 8)
		if n, err := c.Read(buf); n != 1 || err != nil {
			t.Errorf("established connection: read %d, %v", n, err)
		}
		if _, err := c.Read(buf); !errors.Is(err, io.EOF) {
			t.Errorf("read after the peer's close: got %v, want %v", err, io.EOF)
		}
		if _, err := c.Write(buf); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write after the peer's close: got %v, want %v", err, syscall.EPIPE)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(buf); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after our close: got %v, want %v", err, net.ErrClosed)
		}
		if _, err := c.Write(buf); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after our close: got %v, want %v", err, net.ErrClosed)
		}
	})
}
