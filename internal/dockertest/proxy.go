package dockertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openenv-go/openenv/internal/testenv"
)

// FailFirstRemoval stands before the engine and lets the first removal of anything
// fail. It returns the address to name instead of the engine's.
func FailFirstRemoval(t testing.TB) (host string) {
	t.Helper()
	path, ok := strings.CutPrefix(Engine(t), "unix://")
	if !ok {
		testenv.Require(t, "an engine behind a socket", fmt.Errorf("there is one at %s", found.host))
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.Transport = transport
	var removals atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && removals.Add(1) == 1 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"message":"device or resource busy"}`)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		transport.CloseIdleConnections()
	})
	return fmt.Sprint("tcp://", s.Listener.Addr())
}
