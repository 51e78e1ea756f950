package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/relay"
)

// moodyEnv is the echo environment, but for some messages.
type moodyEnv struct {
	*echo.Env
	waiting chan<- struct{}
}

func (e *moodyEnv) Step(ctx context.Context, a echo.Action) (openenv.StepResult[echo.Observation], error) {
	switch a.Message {
	case "boom":
		return openenv.StepResult[echo.Observation]{}, errors.New("boom")
	case "panic": // ends the session
		panic("panic")
	case "wait": // until the client leaves
		select {
		case e.waiting <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return openenv.StepResult[echo.Observation]{}, context.Cause(ctx)
	}
	res, err := e.Env.Step(ctx, a)
	res.Done = a.Message == "done"
	if a.Message == "meta" {
		res.Metadata = openenv.Object{"a": uint64(12345678901234567890)} // more digits than a float64 has
	}
	return res, err
}

// startEcho serves the moody echo environment. Waiting gets a value when a step
// waits.
func startEcho(t *testing.T, sessions int) (url string, waiting <-chan struct{}) {
	t.Helper()
	signal := make(chan struct{}, 1)
	build := func(ctx context.Context) (*moodyEnv, error) {
		env, err := echo.New(ctx)
		return &moodyEnv{env, signal}, err
	}
	srv, err := envserver.New(echo.Spec, build, envserver.WithMaxSessions(sessions), envserver.WithConcurrentSessions(),
		envserver.WithMetadata(openenv.Metadata{Name: "moody", Author: "A. Uthor", ReadmeContent: "# Moody"}))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, srv, func() { _ = srv.Shutdown(context.Background()) }), signal
}

func serve(t *testing.T, h http.Handler, stop func()) (url string) {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(func() {
		stop()
		ts.CloseClientConnections()
		ts.Close()
	})
	return ts.URL
}

// unnumbered is a server that does not agree to the subprotocol of numbered requests, as those
// of the Python package.
func unnumbered(t *testing.T, sessions int) (url string) {
	t.Helper()
	srv, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(sessions))
	if err != nil {
		t.Fatal(err)
	}
	deaf := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Sec-WebSocket-Protocol")
		srv.ServeHTTP(w, r)
	})
	return serve(t, deaf, func() { _ = srv.Shutdown(context.Background()) })
}

// unsteady is the way to a server on which sockets are cut, again and again.
func unsteady(t *testing.T, url string) string {
	t.Helper()
	r, err := relay.New(context.Background(), strings.TrimPrefix(url, "http://"),
		relay.Sockets{Plan: relay.Every{Bytes: 600, Kinds: []relay.Kind{relay.Cut}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return "http://" + r.Addr()
}

// occupied is a server whose only session is taken.
func occupied(t *testing.T) (url string) {
	t.Helper()
	url, _ = startEcho(t, 1)
	client, err := openenv.New(openenv.Generic, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return url
}

// guarded wants a token and a header, each from its own flag.
func guarded(t *testing.T) (url string) {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" || strings.Join(r.Header.Values("X-Team"), ",") != "red,blue" {
			http.Error(w, `{"detail":"who are you?"}`, http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"status":"healthy"}`))
	}), func() {})
}

// answers serves fixed bodies; other paths are missing.
func answers(t *testing.T, bodies map[string]string) (url string) {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.URL.Path]
		switch {
		case !ok:
			http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
		case body == "":
			http.Error(w, `{"detail":"it broke"}`, http.StatusInternalServerError)
		default:
			_, _ = w.Write([]byte(body))
		}
	}), func() {})
}

// silent accepts connections and says nothing.
func silent(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

// unreachable is an address at which nothing listens.
func unreachable(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}
