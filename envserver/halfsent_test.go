package envserver_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// Report 49: requests that stop half-way hold no slot, and are given up in time. Real
// sockets and real time: the deadlines are the network's.
func TestHalfSentRequests(t *testing.T) {
	leak.Check(t)
	l := new(lab)
	srv := l.server(t, envserver.WithMaxSessions(10), envserver.WithHeaderTimeout(300*time.Millisecond))
	listener, err := envserver.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, listener) }()
	address := listener.Addr().String()

	var wg sync.WaitGroup
	start := time.Now()
	for i := range 100 {
		half, end := "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\":", "408"
		if i%2 == 0 {
			half, end = "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: web", ""
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, half); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer conn.Close()
			answer, _ := io.ReadAll(conn) // the end may be a reset
			if took := time.Since(start); took < 200*time.Millisecond || took > 20*time.Second || !strings.Contains(string(answer), end) {
				t.Errorf("%q ended after %v with %q", half, took, answer)
			}
		})
	}
	resp, err := http.Post("http://"+address+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), `"session_id"`) {
		t.Errorf("create beside them: %s, %v", body, err)
	}
	if n := srv.ActiveSessions(); n != 1 {
		t.Errorf("%d slots are taken", n)
	}
	wg.Wait()

	// A body that keeps coming may take longer than the limit.
	r, w := io.Pipe()
	go func() {
		for _, piece := range []string{`{"action":`, `{"do":`, `"slow"`, `}}`} {
			time.Sleep(150 * time.Millisecond)
			_, _ = io.WriteString(w, piece) // fails with the request, which the test sees
		}
		w.Close()
	}()
	resp, err = http.Post("http://"+address+"/step", "application/json", r)
	if err != nil {
		t.Fatal(err)
	}
	body, _ = io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "slow") {
		t.Errorf("a slow body: %d %s", resp.StatusCode, body)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	l.check(t, 2)
	if err := srv.Serve(t.Context(), listener); err == nil || err.Error() != envserver.ErrServerClosed.Error() {
		t.Errorf("Serve after that: %v", err)
	}
}

// Report 24: health is quick while every session is busy with a step that blocks.
func TestHealthUnderLoad(t *testing.T) {
	leak.Check(t)
	l := new(lab)
	w := &world{lab: l, t: t, srv: l.server(t)}
	w.at = servedOnLoopback(t, w.srv)
	var wg sync.WaitGroup
	for range 8 {
		s := w.dial("")
		s.do("x", 0)
		wg.Go(func() { want(t, s.do("ignore", 3000), `"did":"ignore"`) })
	}
	var took []time.Duration
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		start := time.Now()
		if status, body := w.get("/health", ""); status != 200 || body != `{"status":"healthy"}` {
			t.Fatalf("%d %s", status, body)
		}
		took = append(took, time.Since(start))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(took)
	if p99 := took[len(took)*99/100]; p99 > 100*time.Millisecond {
		t.Errorf("health took %v at the 99th percentile of %d", p99, len(took))
	}
	wg.Wait()
}

func TestListen(t *testing.T) {
	for _, tt := range []struct{ addr, want string }{
		{":0", "127.0.0.1:"}, {"localhost:0", "127.0.0.1:"}, {"127.0.0.1:0", "127.0.0.1:"}, {"0.0.0.0:0", "everywhere"}, {"8000", ""}, {"", ""},
	} {
		l, err := envserver.Listen(t.Context(), tt.addr)
		switch {
		case tt.want == "" && err == nil, tt.want != "" && err != nil:
			t.Errorf("Listen(%q): %v", tt.addr, err)
		case err != nil:
		case tt.want == "everywhere" && l.Addr().(*net.TCPAddr).IP.IsUnspecified():
		case !strings.HasPrefix(l.Addr().String(), tt.want):
			t.Errorf("Listen(%q) is at %v", tt.addr, l.Addr())
		}
		if err == nil {
			l.Close()
		}
	}
}
