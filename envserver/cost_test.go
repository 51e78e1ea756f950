package envserver_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// frugal is a client that allocates nothing between two frames, so that what a process
// allocates meanwhile is the server's.
type frugal struct {
	conn net.Conn
	in   *bufio.Reader
	head [4]byte
}

func dialFrugal(t testing.TB, url string) *frugal {
	t.Helper()
	return dialFrugalAt(t, url, "/ws", "")
}

func dialFrugalAt(t testing.TB, url, path, header string) *frugal {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+header+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	f := &frugal{conn: conn, in: bufio.NewReaderSize(conn, 1024)}
	resp, err := http.ReadResponse(f.in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", resp, err)
	}
	return f
}

// masked is a client's text frame; a mask of zeros is a mask.
func masked(text string) []byte {
	frame := []byte{0x81, 0x80 | 126, byte(len(text) >> 8), byte(len(text)), 0, 0, 0, 0}
	return append(frame, text...)
}

// trip sends a frame and skips the reply.
func (f *frugal) trip(frame []byte) error {
	if _, err := f.conn.Write(frame); err != nil {
		return err
	}
	if _, err := io.ReadFull(f.in, f.head[:2]); err != nil {
		return err
	}
	size := int(f.head[1])
	if size == 126 {
		if _, err := io.ReadFull(f.in, f.head[:2]); err != nil {
			return err
		}
		size = int(binary.BigEndian.Uint16(f.head[:]))
	}
	_, err := f.in.Discard(size)
	return err
}

func serveEcho(t testing.TB, opts ...envserver.Option) string {
	t.Helper()
	srv, err := envserver.New(echo.Spec, echo.New, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return openenvtest.ServeLoopback(t, srv).URL()
}

// A typed step costs the server few allocations; each is paid on every step of every
// session.
func TestAllocationsPerStep(t *testing.T) {
	leak.Check(t)
	limit := 12.0
	if raceDetector {
		limit *= 2
	}
	client := dialFrugal(t, serveEcho(t))
	for _, tt := range []struct{ name, frame string }{
		{"as our client spells it", `{"type":"step","data":{"message":"` + strings.Repeat("x", 100) + `"}}`},
		{"as Python spells it", `{"type": "step", "data": {"message": "` + strings.Repeat("x", 100) + `", "metadata": {}}}`},
	} {
		frame := masked(tt.frame)
		n := testing.AllocsPerRun(2000, func() {
			if err := client.trip(frame); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %.1f", tt.name, n)
		if n > limit {
			t.Errorf("%s: %.1f allocations, want at most %.0f", tt.name, n, limit)
		}
	}
}

// Numbers, a ctx for each call and kept replies cost a few allocations more, on sockets
// that asked for them only.
func TestAllocationsPerNumberedStep(t *testing.T) {
	leak.Check(t)
	limit := 8.0
	if raceDetector {
		limit *= 2
	}
	url := serveEcho(t)
	client := dialFrugalAt(t, url, "/ws?session_id="+createOn(t, url), "Sec-WebSocket-Protocol: "+sessionV1+"\r\n")
	for _, tt := range []struct {
		name, head string
		more       float64
	}{
		{"without a deadline", `{"id":1000000000`, 0},
		{"with a deadline", `{"id":2000000000,"ms":60000`, 8},
	} {
		frame := masked(tt.head + `,"type":"step","data":{"message":"` + strings.Repeat("x", 100) + `"}}`)
		digits := frame[bytes.IndexByte(frame, ':')+1:][:10]
		n := testing.AllocsPerRun(2000, func() {
			increment(digits)
			if err := client.trip(frame); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %.1f", tt.name, n)
		if n > limit+tt.more {
			t.Errorf("%s: %.1f allocations, want at most %.0f", tt.name, n, limit+tt.more)
		}
	}
}

// createOn makes a session over HTTP.
func createOn(t testing.TB, url string) (id string) {
	t.Helper()
	resp, err := http.Post(url+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var answer struct {
		Result struct {
			SessionID string `json:"session_id"`
		} `json:"result"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Result.SessionID == "" {
		t.Fatalf("create: %+v, %v", answer, err)
	}
	return answer.Result.SessionID
}

// increment counts in decimal digits.
func increment(digits []byte) {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i]++; digits[i] <= '9' {
			return
		}
		digits[i] = '0'
	}
}

// An idle session costs little memory, whatever it was asked before: trainers keep
// thousands.
func TestMemoryOfIdleSessions(t *testing.T) {
	const (
		sessions = 1024
		limit    = 32 << 10
	)
	for _, tt := range []struct {
		name string
		size int
	}{{"after small messages", 100}, {"after messages above the library's buffer", 8 << 10}} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			url := serveEcho(t, envserver.WithMaxSessions(sessions))
			frame := masked(`{"type":"step","data":{"message":"` + strings.Repeat("x", tt.size) + `"}}`)
			play := func() {
				if err := dialFrugal(t, url).trip(frame); err != nil {
					t.Fatal(err)
				}
			}
			play() // what happens once
			before := inUse()
			for range sessions - 1 {
				play()
			}
			each := (inUse() - before) / (sessions - 1)
			t.Logf("%d bytes of heap and stack a session, its client in this process included", each)
			if each > limit {
				t.Errorf("an idle session takes %d bytes, want at most %d", each, limit)
			}
		})
	}
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools held is gone after the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
