package mcp_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

// A server of this project that was started anew at the same address does not know the
// sessions of the one before it. That is told once, and then there is a new session.
func TestRestartedGoServer(t *testing.T) {
	leak.Check(t)
	address := "127.0.0.1:0"
	start := func() (stop func()) {
		srv, err := envserver.New(mcp.Spec, func(context.Context) (*mcp.Environment, error) {
			return mcp.NewEnvironment(newToolbox().server(t, true))
		})
		must(t, err)
		l, err := net.Listen("tcp", address)
		must(t, err)
		address = l.Addr().String()
		hs := &http.Server{Handler: srv}
		served := make(chan struct{})
		go func() { defer close(served); _ = hs.Serve(l) }()
		return func() {
			_ = hs.Close()
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = srv.Shutdown(ctx)
			<-served
		}
	}
	for _, tt := range []struct {
		name                string
		list, call, episode bool // what was done before
		settle              time.Duration
	}{
		{name: "a list", list: true},
		{name: "calls", call: true},
		{name: "an episode", call: true, episode: true},
		{name: "a list, and the end of the socket was noticed", list: true, settle: 100 * time.Millisecond},
		{name: "calls, and the end of the socket was noticed", call: true, settle: 100 * time.Millisecond},
		{name: "an episode, and the end of the socket was noticed", call: true, episode: true, settle: 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stop := start()
			c := newClient(t, "http://"+address)
			if tt.episode {
				_, err := c.Reset(t.Context())
				must(t, err)
			}
			if tt.list {
				_, err := c.ListTools(t.Context())
				must(t, err)
			}
			if tt.call {
				_, err := c.CallTool(t.Context(), "inc", nil)
				must(t, err)
			}
			first := c.SessionID()
			stop()
			defer start()()
			time.Sleep(tt.settle)
			_, err := c.CallTool(t.Context(), "inc", nil)
			if tt.list && err == nil {
				return // nothing was lost with the first session
			}
			_ = wantKind(t, err, mcp.KindSessionMissing)
			if !errors.Is(err, openenv.ErrUnknownSession) {
				t.Errorf("got %v", err)
			}
			if tt.episode {
				_, err = c.CallTool(t.Context(), "inc", nil)
				_ = wantKind(t, err, mcp.KindSessionMissing)
				_, err = c.Reset(t.Context())
				must(t, err)
			}
			if n, err := mcp.Call[int](t.Context(), c, "inc", nil); err != nil || n != 1 || c.SessionID() == first {
				t.Errorf("afterwards: %d, %v, on session %s after %s", n, err, c.SessionID(), first)
			}
		})
	}
}

// A call that was made over HTTP is not forgotten because the socket was refused behind it.
func TestSocketRefusedAfterACall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, srv := serveRPC(t, func(string, openenv.Object) (int, string) { return 200, `"result":{"content":[],"data":1}` })
		called, refused := make(chan struct{}), make(chan struct{})
		s.Scripted = openenvtest.Script(t, func(p *openenvtest.Peer) {
			p.Expect("state")
			p.State(`{}`)
			if p.Number() == 1 {
				<-called
				p.Error("SESSION_ERROR", "Unknown session_id: s1")
				close(refused)
				return
			}
			_, _ = p.Next()
		})
		c := newClient(t, srv.URL(), srv.Option())
		if _, err := c.CallTool(t.Context(), "inc", nil); err != nil {
			t.Fatal(err)
		}
		close(called)
		<-refused
		synctest.Wait()
		_, err := c.CallTool(t.Context(), "inc", nil)
		_ = wantKind(t, err, mcp.KindSessionMissing)
		if _, err := c.CallTool(t.Context(), "inc", nil); err != nil || c.SessionID() != "s2" {
			t.Errorf("afterwards: %v on session %q", err, c.SessionID())
		}
	})
}
