package envserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/internal/leak"
)

// Whoever answers where sessions are made and attached to says who it is: the same server
// always the same, another one something else. Nothing else says it.
func TestInstanceHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w, other := inMemory(t), inMemory(t)
		name := w.header(http.MethodPost, "/mcp")
		if len(name) < 16 {
			t.Fatalf("the server calls itself %q", name)
		}
		if again := w.header(http.MethodPost, "/mcp"); again != name {
			t.Errorf("the same server calls itself %q and %q", name, again)
		}
		if same := other.header(http.MethodPost, "/mcp"); same == name {
			t.Errorf("two servers call themselves %q", name)
		}
		for _, path := range []string{"/health", "/schema", "/state"} {
			if got := w.header(http.MethodGet, path); got != "" {
				t.Errorf("GET %s says %q", path, got)
			}
		}
		for _, query := range []string{"/ws", "/ws?session_id=nobody", "/mcp"} {
			ws, resp, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(w.at.URL(), "http")+query, &websocket.DialOptions{HTTPClient: w.at.HTTPClient()})
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.Header.Get("Openenv-Instance"); got != name {
				t.Errorf("the upgrade of %s says %q, want %q", query, got, name)
			}
			_ = ws.CloseNow()
		}
	})
}

// header makes a request and returns who answered.
func (w *world) header(method, path string) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, w.at.URL()+path, strings.NewReader("{}"))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.at.HTTPClient().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.Header.Get("Openenv-Instance")
}
