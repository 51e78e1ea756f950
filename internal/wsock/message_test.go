package wsock_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/wsock"
)

const closeTimeout = time.Second

func TestTextBothWays(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		t.Run(fmt.Sprintf("compression %v", compressed), func(t *testing.T) {
			everywhere(t, func(t *testing.T, at place) {
				leak.Check(t)
				opts := wsock.Options{CloseTimeout: closeTimeout, Compression: compressed}
				client, server := at.pair(t, opts, opts)
				atClient, atServer := receive(client), receive(server)
				for _, size := range []int{0, 1, 125, 126, 4096, wsock.PieceSize - 1, wsock.PieceSize, wsock.PieceSize + 1, 3*wsock.PieceSize + 5} {
					text := strings.Repeat("héllo ", size/7) + strings.Repeat("x", size%7)
					if err := client.Write(t.Context(), []byte(text)); err != nil {
						t.Fatal(err)
					}
					if got := atServer.next(t); got != text {
						t.Errorf("client to server: %d bytes came as %d", len(text), len(got))
					}
					if err := server.Write(t.Context(), []byte(text)); err != nil {
						t.Fatal(err)
					}
					if got := atClient.next(t); got != text {
						t.Errorf("server to client: %d bytes came as %d", len(text), len(got))
					}
				}
				if err := client.Close(1000, "bye"); err != nil {
					t.Errorf("close: %v", err)
				}
				if ce, ok := errors.AsType[*wsock.CloseError](atServer.end(t)); !ok || ce.Code != 1000 || ce.Reason != "bye" {
					t.Errorf("server's reader: got %v, want the close frame", atServer.err)
				}
				if err := atClient.end(t); err == nil {
					t.Error("the client's reader ended without an error")
				}
			})
		})
	}
}

func TestBinaryIsTold(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{})
		in := receive(conn)
		for _, f := range []frame{{true, opBinary, []byte("b")}, {true, opText, []byte("t")}, {true, opBinary, nil}} {
			if err := raw.send(f); err != nil {
				t.Fatal(err)
			}
			got := in.next(t)
			if got != string(f.payload) || in.binary != (f.op == opBinary) {
				t.Errorf("got %q, binary %v, want %q with opcode %d", got, in.binary, f.payload, f.op)
			}
		}
	})
}

func TestFragmentsMakeOneMessage(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{})
		in := receive(conn)
		go discard(raw) // pongs
		for _, f := range []frame{{false, opText, []byte("a")}, {true, opPing, nil}, {false, opContinuation, nil}, {true, opPong, []byte("x")}, {true, opContinuation, []byte("b")}} {
			if err := raw.send(f); err != nil {
				t.Fatal(err)
			}
		}
		if got := in.next(t); got != "ab" {
			t.Errorf("got %q, want %q", got, "ab")
		}
	})
}

// The buffer is asked for when a message has begun: an idle connection holds none.
func TestBufferOnlyForMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		conn, raw := memory.against(t, asClient, wsock.Options{})
		asked := 0
		mine := new(bytes.Buffer)
		read := make(chan *bytes.Buffer, 1)
		go func() {
			buf, _, err := conn.Read(func() *bytes.Buffer { asked++; return mine })
			if err != nil {
				t.Errorf("read: %v", err)
			}
			read <- buf
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if asked != 0 {
			t.Fatalf("%d buffers taken by an idle connection", asked)
		}
		if err := raw.send(frame{true, opText, []byte("hi")}); err != nil {
			t.Fatal(err)
		}
		if got := <-read; got != mine || got.String() != "hi" || asked != 1 {
			t.Errorf("got %v, %d buffers taken", got, asked)
		}
	})
}

func TestLargeMessages(t *testing.T) {
	leak.Check(t)
	opts := wsock.Options{ReadLimit: 100 << 20, CloseTimeout: closeTimeout}
	client, server := loopback.pair(t, opts, opts)
	for _, test := range []struct {
		way      string
		from, to *wsock.Conn
		size     int
	}{
		{"to the client", server, client, 32_769},
		{"to the server", client, server, 32_769},
		{"to the client", server, client, 1<<20 + 1},
		{"to the server", client, server, 1<<20 + 1},
		{"to the client", server, client, 99 << 20}, // the other way is masked, and slow under the race detector
	} {
		text := make([]byte, test.size)
		for i := 0; i < test.size; i += 1000 {
			text[i] = byte(i / 1000)
		}
		written := make(chan error, 1)
		go func() { written <- test.from.Write(t.Context(), text) }()
		into := bytes.NewBuffer(make([]byte, 0, test.size+bytes.MinRead))
		got, _, err := test.to.Read(func() *bytes.Buffer { return into })
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), text) {
			t.Errorf("%d bytes %s came as %d others", test.size, test.way, got.Len())
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}

// A message above the limit ends the connection, and each side can say whose
// limit it was.
func TestReadLimit(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{limit, limit + 1, 3 * limit} {
		for _, as := range []role{asClient, asServer} {
			t.Run(fmt.Sprintf("%s, %d bytes", as, size), func(t *testing.T) {
				leak.Check(t)
				limited, other := wsock.Options{ReadLimit: limit, CloseTimeout: closeTimeout}, wsock.Options{CloseTimeout: closeTimeout}
				reader, writer := loopback.pair(t, limited, other)
				if as == asServer {
					writer, reader = loopback.pair(t, other, limited)
				}
				in, back := receive(reader), receive(writer)
				written := make(chan error, 1)
				go func() { written <- writer.Write(t.Context(), make([]byte, size)) }()
				if size <= limit {
					if got := in.next(t); len(got) != size {
						t.Errorf("%d bytes came as %d", size, len(got))
					}
					if err := <-written; err != nil {
						t.Errorf("write: %v", err)
					}
					return
				}
				if err := in.end(t); !errors.Is(err, wsock.ErrTooBig) || !strings.Contains(err.Error(), "1048576 bytes") {
					t.Errorf("reader: got %v, want %v with the limit", err, wsock.ErrTooBig)
				}
				_ = reader.Close(wsock.CloseTooBig, "") // as its owner does: what is still on the way is read
				if ce, ok := errors.AsType[*wsock.CloseError](back.end(t)); !ok || ce.Code != wsock.CloseTooBig {
					t.Errorf("writer's reader: got %v, want close code %d", back.err, wsock.CloseTooBig)
				}
				if err := <-written; err != nil {
					t.Log(err) // depends on how far it got
				}
			})
		}
	}
}

// A message too big in one frame is given up in its midst; in a compressed one
// the limit is for what comes out.
func TestReadLimitOfOneFrame(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{ReadLimit: 1000, CloseTimeout: closeTimeout})
		in := receive(conn)
		go func() { _ = raw.send(frame{true, opText, make([]byte, 1<<20)}) }()
		f, err := raw.receive()
		if err != nil || f.op != opClose || len(f.payload) < 2 || int(f.payload[0])<<8|int(f.payload[1]) != wsock.CloseTooBig {
			t.Errorf("got %v, %v, want a close frame with code %d", f, err, wsock.CloseTooBig)
		}
		if err := in.end(t); !errors.Is(err, wsock.ErrTooBig) {
			t.Errorf("got %v, want %v", err, wsock.ErrTooBig)
		}
	})
	t.Run("compressed", func(t *testing.T) {
		leak.Check(t)
		client, server := loopback.pair(t, wsock.Options{Compression: true, CloseTimeout: closeTimeout}, wsock.Options{Compression: true, ReadLimit: 1000, CloseTimeout: closeTimeout})
		in := receive(server)
		receive(client)
		if err := client.Write(t.Context(), make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := in.end(t); !errors.Is(err, wsock.ErrTooBig) {
			t.Errorf("got %v, want %v", err, wsock.ErrTooBig)
		}
	})
}

// A large message is written in frames of a bounded size, and a ping is answered
// between two of them.
func TestPingIsAnsweredInsideALargeMessage(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{})
		receive(conn)
		text := bytes.Repeat([]byte("0123456789abcdef"), 20*wsock.PieceSize/16)
		written := make(chan error, 1)
		go func() { written <- conn.Write(t.Context(), text) }()
		var join messages
		const pingAfter = 3
		pong := -1
		for n := 0; ; n++ {
			f, err := raw.receive()
			if err != nil {
				t.Fatal(err)
			}
			if len(f.payload) > wsock.PieceSize {
				t.Errorf("frame %d has %d bytes", n, len(f.payload))
			}
			if f.op == opPong {
				pong = n
				if string(f.payload) != "now" {
					t.Errorf("pong carries %q", f.payload)
				}
			}
			whole, done, err := join.add(f)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				if !bytes.Equal(whole, text) {
					t.Errorf("%d bytes came as %d others", len(text), len(whole))
				}
				break
			}
			if n == pingAfter {
				if err := raw.send(frame{true, opPing, []byte("now")}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // it has been read, the writer is stuck in a frame
			}
		}
		// One frame may have been on the way, and part of the next.
		if pong < 0 || pong > pingAfter+3 {
			t.Errorf("ping after frame %d, pong as frame %d", pingAfter, pong)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}

// What is small goes out in one frame.
func TestSmallMessagesAreOneFrame(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		conn, raw := memory.against(t, as, wsock.Options{})
		for _, size := range []int{0, 1, 125, 126, 10_000, wsock.PieceSize} {
			go func() { _ = conn.Write(t.Context(), make([]byte, size)) }()
			if f, err := raw.receive(); err != nil || !f.fin || f.op != opText || len(f.payload) != size {
				t.Errorf("%d bytes: got fin %v, opcode %d, %d bytes, %v", size, f.fin, f.op, len(f.payload), err)
			}
			synctest.Wait()
		}
	})
}

func TestMalformedFramesEndTheConnection(t *testing.T) {
	for name, f := range map[string]frame{
		"a continuation of nothing": {true, opContinuation, []byte("x")},
		"an unknown opcode":         {true, 0x3, nil},
		"a fragmented ping":         {false, opPing, nil},
		"a long ping":               {true, opPing, make([]byte, 126)},
	} {
		t.Run(name, func(t *testing.T) {
			bothRoles(t, memory, func(t *testing.T, as role) {
				leak.Check(t)
				conn, raw := memory.against(t, as, wsock.Options{CloseTimeout: closeTimeout})
				in := receive(conn)
				go func() { _ = raw.send(f) }()
				got, err := raw.receive()
				if err != nil || got.op != opClose || int(got.payload[0])<<8|int(got.payload[1]) != 1002 {
					t.Errorf("got %v, %v, want a close frame with code 1002", got, err)
				}
				if err := in.end(t); err == nil || errors.Is(err, wsock.ErrTooBig) {
					t.Errorf("reader: got %v", err)
				}
			})
		})
	}
}

func TestReadAfterTheNetworkIsGone(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		leak.Check(t)
		conn, raw := at.against(t, asClient, wsock.Options{CloseTimeout: closeTimeout})
		in := receive(conn)
		raw.Close()
		err := in.end(t)
		if ce, ok := errors.AsType[*wsock.CloseError](err); ok || !strings.HasPrefix(err.Error(), "connection lost: ") {
			t.Errorf("got %v (%v), want a lost connection", err, ce)
		}
		if _, _, again := conn.Read(func() *bytes.Buffer { return new(bytes.Buffer) }); again == nil {
			t.Error("a second read found something")
		}
		if err := conn.Write(t.Context(), []byte("x")); err == nil && at.name == memory.name {
			t.Error("a write went through")
		}
	})
}

// A message whose end did not arrive is no message, wherever it was cut off: at a
// boundary of the library's reads, too.
func TestCutOffMessageIsNone(t *testing.T) {
	bothRoles(t, memory, func(t *testing.T, as role) {
		leak.Check(t)
		text := []byte(strings.Repeat("x", 3000))
		for cut := 1; cut < len(text)+4; cut += 1 + cut/16 {
			for _, size := range []int{cut, 512*(cut/512) + 4, 512*(cut/512) + 8} {
				conn, raw := memory.against(t, as, wsock.Options{})
				in := receive(conn)
				whole := raw.append(nil, frame{true, opText, text})
				if _, err := raw.Write(whole[:min(size, len(whole)-1)]); err != nil {
					t.Fatal(err)
				}
				raw.Close()
				if err := in.end(t); err == nil || len(in.texts) > 0 {
					t.Fatalf("cut after %d of %d bytes: %d messages, %v", size, len(whole), len(in.texts), err)
				}
				conn.Abort()
			}
		}
	})
}
