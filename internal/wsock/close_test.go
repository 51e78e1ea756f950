package wsock_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/wsock"
)

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// zeros is a message that no socket buffer holds.
var zeros = sync.OnceValue(func() []byte { return make([]byte, 32<<20) })

// stuckWrite begins a write that the peer does not take, and returns its error.
func stuckWrite(ctx context.Context, conn *wsock.Conn) <-chan error {
	written := make(chan error, 1)
	text := zeros()
	go func() { written <- conn.Write(ctx, text) }()
	return written
}

// A peer that has stopped reading holds nobody longer than the close timeout.
func TestCloseIsBounded(t *testing.T) {
	for _, test := range []struct {
		name    string
		writing bool
	}{
		{"idle", false},
		{"in the middle of a write", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			bothRoles(t, memory, func(t *testing.T, as role) {
				leak.Check(t)
				const clients = 50
				var conns []*wsock.Conn
				var writes []<-chan error
				for range clients {
					conn, _ := memory.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
					receive(conn)
					conns = append(conns, conn)
					if test.writing {
						writes = append(writes, stuckWrite(t.Context(), conn))
					}
				}
				synctest.Wait()
				start := time.Now()
				var all sync.WaitGroup
				for _, conn := range conns {
					all.Go(func() { conn.Close(1000, "") })
				}
				all.Wait()
				if passed := time.Since(start); passed != closeTimeout {
					t.Errorf("closed after %v, want %v", passed, closeTimeout)
				}
				for _, written := range writes {
					if err := <-written; err == nil {
						t.Error("a write that nobody took succeeded")
					}
				}
			})
		})
	}
}

func TestCloseIsBoundedOverSockets(t *testing.T) {
	bothRoles(t, loopback, func(t *testing.T, as role) {
		leak.Check(t)
		const limit = 200 * time.Millisecond
		var all sync.WaitGroup
		var took sync.Map
		for i := range 50 {
			conn, _ := loopback.against(t, as, wsock.Options{CloseTimeout: limit})
			in := receive(conn)
			written := stuckWrite(t.Context(), conn)
			all.Go(func() {
				start := time.Now()
				conn.Close(1000, "")
				took.Store(i, time.Since(start))
				if err := <-written; err == nil {
					t.Error("a write that nobody took succeeded")
				}
				_ = in.end(t)
			})
		}
		all.Wait()
		took.Range(func(i, d any) bool {
			if d.(time.Duration) > limit+time.Second {
				t.Errorf("close %v took %v", i, d)
			}
			return true
		})
	})
}

// Without a close timeout nobody is waited for.
func TestCloseWithoutTimeout(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, _ := memory.against(t, as, wsock.Options{})
		receive(conn)
		start := time.Now()
		conn.Close(1000, "")
		if passed := time.Since(start); passed > 0 {
			t.Errorf("took %v", passed)
		}
	})
}

func TestCloseHandshake(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
		in := receive(conn)
		done := make(chan error, 1)
		go func() { done <- conn.Close(4001, "enough") }()
		f, err := raw.receive()
		if err != nil || f.op != opClose || string(f.payload) != "\x0f\xa1enough" {
			t.Fatalf("got %v, %v, want a close frame", f, err)
		}
		time.Sleep(closeTimeout / 2)
		// What the peer had on the way is read, and not delivered.
		if err := errors.Join(raw.send(frame{true, opText, []byte("late")}), raw.send(frame{true, opClose, f.payload})); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := <-done; err != nil || time.Since(start) > 0 {
			t.Errorf("close: got %v, %v after the peer's answer", err, time.Since(start))
		}
		if _, err := raw.receive(); !errors.Is(err, io.EOF) {
			t.Errorf("after the close frame: got %v, want %v", err, io.EOF)
		}
		_ = in.end(t)
	})
}

func TestCloseAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		conn, _ := memory.against(t, asClient, wsock.Options{CloseTimeout: closeTimeout})
		in := receive(conn)
		start := time.Now()
		var all sync.WaitGroup
		errs := make([]error, 5)
		for i := range errs {
			all.Go(func() {
				time.Sleep(time.Duration(i) * closeTimeout / 10)
				errs[i] = conn.Close(1000, "")
				if passed := time.Since(start); passed != closeTimeout {
					t.Errorf("close %d returned after %v, want with the first", i, passed)
				}
			})
		}
		all.Wait()
		for i, err := range errs {
			if !errors.Is(err, errs[0]) && err != errs[0] { //nolint:errorlint // the very same value is wanted
				t.Errorf("close %d: got %v, the first got %v", i, err, errs[0])
			}
		}
		_ = in.end(t)
		again := time.Now()
		conn.Close(1001, "")
		conn.Abort()
		if passed := time.Since(again); passed > 0 {
			t.Errorf("closing what is closed took %v", passed)
		}
	})
}

func TestCloseAfterThePeer(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		leak.Check(t)
		opts := wsock.Options{CloseTimeout: closeTimeout}
		client, server := at.pair(t, opts, opts)
		atClient, atServer := receive(client), receive(server)
		if err := server.Close(4002, "first"); err != nil {
			t.Errorf("the first close: %v", err)
		}
		if ce, ok := errors.AsType[*wsock.CloseError](atClient.end(t)); !ok || ce.Code != 4002 || ce.Reason != "first" {
			t.Errorf("reader: got %v, want the peer's close frame", atClient.err)
		}
		_ = atServer.end(t)
		if err := client.Write(t.Context(), []byte("x")); err == nil {
			t.Error("a write after the close succeeded")
		}
		start := time.Now()
		if err := client.Close(1000, ""); err != nil {
			t.Errorf("the second close: %v", err)
		}
		if passed := time.Since(start); passed > closeTimeout/2 {
			t.Errorf("the second close took %v", passed)
		}
	})
}

// Both ends may give up at the same moment.
func TestCloseFromBothEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		leak.Check(t)
		opts := wsock.Options{CloseTimeout: closeTimeout}
		for range 20 {
			client, server := at.pair(t, opts, opts)
			atClient, atServer := receive(client), receive(server)
			start := time.Now()
			var both sync.WaitGroup
			for _, conn := range []*wsock.Conn{client, server} {
				both.Go(func() { conn.Close(1000, "") })
			}
			both.Wait()
			_ = atClient.end(t)
			_ = atServer.end(t)
			if passed := time.Since(start); passed > closeTimeout/2 {
				t.Fatalf("took %v", passed)
			}
		}
	})
}

func TestAbortFreesEverybody(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{CloseTimeout: time.Hour, PingInterval: time.Minute})
		in := receive(conn)
		written := stuckWrite(t.Context(), conn)
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			conn.Close(1000, "")
		}()
		time.Sleep(time.Second)
		start := time.Now()
		conn.Abort()
		if err := <-written; err == nil {
			t.Error("the write succeeded")
		}
		<-closed
		_ = in.end(t)
		if passed := time.Since(start); passed > 0 {
			t.Errorf("took %v", passed)
		}
		for {
			f, err := raw.receive()
			if errors.Is(err, errMalformed) || f.op == opClose && err == nil {
				t.Errorf("the peer saw %v, %v", f, err)
			}
			if err != nil {
				break
			}
		}
	})
}

func TestAbortAlone(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		leak.Check(t)
		conn, raw := at.against(t, asServer, wsock.Options{CloseTimeout: time.Hour, PingInterval: time.Minute})
		in := receive(conn)
		conn.Abort()
		conn.Abort()
		if err := in.end(t); err == nil {
			t.Error("the reader ended without an error")
		}
		if f, err := raw.receive(); err == nil {
			t.Errorf("the peer got %v, want no close frame", f)
		}
		if err := conn.Write(t.Context(), []byte("x")); err == nil {
			t.Error("a write afterwards succeeded")
		}
		start := time.Now()
		conn.Close(1000, "")
		if passed := time.Since(start); passed > time.Second {
			t.Errorf("a close afterwards took %v", passed)
		}
	})
}

// A write whose context ends half-way breaks the connection: the peer sees no
// frame that is not what was meant, and no message that ends early.
func TestCancelInTheMiddleOfAWrite(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
		in := receive(conn)
		reason := errors.New("the caller left")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		written := stuckWrite(ctx, conn)
		for n := range 5 {
			if f, err := raw.receive(); err != nil || f.fin || len(f.payload) != wsock.PieceSize {
				t.Fatalf("frame %d: got fin %v, %d bytes, %v", n, f.fin, len(f.payload), err)
			}
		}
		_, _ = raw.in.Discard(10) // into the next frame
		time.Sleep(time.Second)
		start := time.Now()
		cancel(reason)
		if err := <-written; !errors.Is(err, reason) || time.Since(start) > 0 {
			t.Errorf("got %v after %v, want %v at once", err, time.Since(start), reason)
		}
		if err := in.end(t); err == nil {
			t.Error("the reader ended without an error")
		}
		// The rest is what had arrived of the frame, and then nothing.
		rest, _ := io.ReadAll(raw.in)
		if len(rest) > 2*wsock.PieceSize || !bytes.Equal(rest, make([]byte, len(rest))) && as == asServer {
			t.Errorf("%d bytes came after the cancel", len(rest))
		}
		if err := conn.Write(t.Context(), []byte("x")); err == nil {
			t.Error("a write on the broken connection succeeded")
		}
	})
}

func TestCancelOverSocketsIsPrompt(t *testing.T) {
	bothRoles(t, loopback, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := loopback.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
		receive(conn)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		written := stuckWrite(ctx, conn)
		if _, err := raw.receive(); err != nil { // it is under way
			t.Fatal(err)
		}
		start := time.Now()
		cancel()
		if err := <-written; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if passed := time.Since(start); passed > 200*time.Millisecond {
			t.Errorf("took %v", passed)
		}
		for {
			f, err := raw.receive()
			if err == nil && f.fin {
				t.Errorf("a message of %d bytes came to its end", len(f.payload))
			}
			if errors.Is(err, errMalformed) {
				t.Error(err)
			}
			if err != nil {
				break
			}
		}
	})
}

// A context that has ended before the write leaves the connection as it was.
func TestCancelBeforeAWrite(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		leak.Check(t)
		opts := wsock.Options{CloseTimeout: closeTimeout}
		client, server := at.pair(t, opts, opts)
		receive(client)
		in := receive(server)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := client.Write(ctx, []byte("never")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if err := client.Write(t.Context(), []byte("next")); err != nil {
			t.Fatal(err)
		}
		if got := in.next(t); got != "next" {
			t.Errorf("got %q", got)
		}
	})
}

// A context that ends after its write has no say any more.
func TestCancelAfterAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		conn, raw := memory.against(t, asClient, wsock.Options{CloseTimeout: closeTimeout, WriteTimeout: time.Second})
		in := receive(conn)
		ctx, cancel := context.WithCancel(t.Context())
		written := make(chan error, 1)
		go func() { written <- conn.Write(ctx, []byte("slow")) }()
		time.Sleep(500 * time.Millisecond) // long enough to be watched
		if f, err := raw.receive(); err != nil || string(f.payload) != "slow" {
			t.Fatalf("got %v, %v", f, err)
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Minute)
		if err := raw.send(frame{true, opText, []byte("hi")}); err != nil || in.next(t) != "hi" {
			t.Errorf("the connection is gone: %v", err)
		}
	})
}

func TestWriteTimeout(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"alone": 0, "with a later deadline": time.Minute} {
		t.Run(name, func(t *testing.T) {
			bothRoles(t, memory, func(t *testing.T, as role) {
				leak.Check(t)
				const limit = 3 * time.Second
				conn, _ := memory.against(t, as, wsock.Options{CloseTimeout: closeTimeout, WriteTimeout: limit})
				in := receive(conn)
				ctx := t.Context()
				if deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, deadline)
					defer cancel()
				}
				start := time.Now()
				if err := conn.Write(ctx, []byte("nobody reads this")); !errors.Is(err, wsock.ErrWriteTimeout) {
					t.Errorf("got %v, want %v", err, wsock.ErrWriteTimeout)
				}
				if passed := time.Since(start); passed != limit {
					t.Errorf("took %v, want %v", passed, limit)
				}
				if err := in.end(t); !errors.Is(err, wsock.ErrWriteTimeout) {
					t.Errorf("reader: got %v, want %v", err, wsock.ErrWriteTimeout)
				}
			})
		})
	}
}
