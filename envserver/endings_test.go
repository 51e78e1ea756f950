package envserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
)

// Shutdown returns after an environment is closed that somebody else is closing.
func TestShutdownWaitsForACloseInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := serveLab(t, &lab{enter: func(hook string) {
			if hook == "close" {
				time.Sleep(5 * time.Second)
			}
		}})
		id := w.create()
		answered := make(chan string, 1)
		go func() { answered <- w.rpc("openenv/session/close", `{"session_id":"`+id+`"}`) }()
		time.Sleep(time.Second)
		start := time.Now()
		w.shutdown()
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("Shutdown returned after %v, the environment was closed after 4s", took)
		}
		w.check(t, 1)
		want(t, <-answered, `"closed":true`)
	})
}

// A session whose client left while it was made over HTTP is nobody's: it is closed.
func TestASessionThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := serveLab(t, &lab{build: func(context.Context) error { time.Sleep(time.Second); return nil }})
		for _, path := range []string{"/mcp", "/step"} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			body := `{"jsonrpc":"2.0","id":1,"method":"openenv/session/create","action":{"do":"x"}}`
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.at.URL()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := w.at.HTTPClient().Do(req)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, %v", path, resp, err)
			}
			cancel()
		}
		time.Sleep(2 * time.Second)
		settle()
		if n := w.srv.ActiveSessions(); n != 0 {
			t.Errorf("%d slots are taken", n)
		}
		w.check(t, 2)
	})
}
