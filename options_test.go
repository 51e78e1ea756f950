package openenv_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// Bad options fail in New, with the option's name; New does no I/O.
func TestBadOptions(t *testing.T) {
	for _, tt := range []struct {
		want string
		opt  openenv.Option
	}{
		{"WithConnectTimeout", openenv.WithConnectTimeout(-1)},
		{"WithMessageTimeout", openenv.WithMessageTimeout(-1)},
		{"WithCloseTimeout", openenv.WithCloseTimeout(-1)},
		{"WithStartTimeout", openenv.WithStartTimeout(-1)},
		{"WithStopTimeout", openenv.WithStopTimeout(-1)},
		{"WithPingInterval", openenv.WithPingInterval(-1)},
		{"WithPingTimeout", openenv.WithPingTimeout(-1)},
		{"WithMaxMessageSize", openenv.WithMaxMessageSize(-1)},
		{"WithPipelining", openenv.WithPipelining(-1)},
		{"WithConnectRetry", openenv.WithConnectRetry(openenv.Retry{Attempts: -1})},
		{"WithConnectRetry", openenv.WithConnectRetry(openenv.Retry{Attempts: 3})},
		{"WithConnectRetry", openenv.WithConnectRetry(openenv.Retry{Attempts: 3, Base: 1, Max: -1})},
		{"WithMode", openenv.WithMode("training")},
		{"WithMode", openenv.WithMode("")},
		{"WithProvider", openenv.WithProvider(nil)},
		{"WithLogger", openenv.WithLogger(nil)},
		{"WithInterceptor", openenv.WithInterceptor(nil)},
		{"WithHTTPClient", openenv.WithHTTPClient(nil)},
		{"WithHeaderFunc", openenv.WithHeaderFunc(nil)},
		{"WithProxy", openenv.WithProxy(nil)},
		{"nil option", nil},
	} {
		_, err := openenv.New(openenv.Generic, "localhost:1", tt.opt)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s named", err, tt.want)
		}
	}
	if _, err := openenv.New(openenv.Generic, ""); err == nil || !strings.Contains(err.Error(), "WithProvider") {
		t.Errorf("neither URL nor provider: %v", err)
	}
	opaque := openenv.WithHTTPClient(&http.Client{Transport: roundTripper(nil)})
	if _, err := openenv.New(openenv.Generic, "localhost:1", opaque, openenv.WithProxy(openenv.NoProxy)); err == nil || !strings.Contains(err.Error(), "WithProxy") {
		t.Errorf("a proxy for a transport that has none: %v", err)
	}
}

// The mode is fixed by New: option, then environment variable, then the default.
func TestMode(t *testing.T) {
	for _, tt := range []struct {
		variable string
		opts     []openenv.Option
		want     openenv.Mode
	}{
		{"", nil, openenv.ModeSimulation},
		{"production", nil, openenv.ModeProduction},
		{"PRODUCTION", nil, openenv.ModeProduction},
		{"production", []openenv.Option{openenv.WithMode(openenv.ModeSimulation)}, openenv.ModeSimulation},
		{"nonsense", []openenv.Option{openenv.WithMode(openenv.ModeProduction)}, openenv.ModeProduction},
	} {
		t.Setenv("OPENENV_CLIENT_MODE", tt.variable)
		env, err := openenv.New(openenv.Generic, "localhost:1", tt.opts...)
		if err != nil {
			t.Fatalf("%+v: %v", tt, err)
		}
		t.Setenv("OPENENV_CLIENT_MODE", "simulation")
		if env.Mode() != tt.want {
			t.Errorf("%+v: mode %s", tt, env.Mode())
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("OPENENV_CLIENT_MODE", "nonsense")
	if _, err := openenv.New(openenv.Generic, "localhost:1"); err == nil || !strings.Contains(err.Error(), "OPENENV_CLIENT_MODE") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v, want the variable and its value named", err)
	}
}

// Report: the process's proxy variables stay changed after parallel connects. They
// are read, per client, and never written; this machine is never reached by a proxy.
func TestProxyVariablesAreNeverWritten(t *testing.T) {
	leak.Check(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1") // nobody listens
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	before := os.Environ()
	srv := openenvtest.ServeLoopback(t, openenvtest.Script(t, answer))
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			env, err := openenv.New(openenv.Generic, srv.URL())
			if err != nil {
				t.Error(err)
				return
			}
			if err := env.Connect(t.Context()); err != nil {
				t.Error(err)
			}
			if err := env.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !slices.Equal(before, os.Environ()) {
		t.Error("the environment has changed")
	}
}

// Report: a proxy is asked against the caller's will. The policy is the client's own,
// for the socket and for HTTP alike.
func TestProxyPolicyIsPerClient(t *testing.T) {
	leak.Check(t)
	var mu sync.Mutex
	var asked []string
	proxy := openenvtest.ServeLoopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.Host)
		http.Error(w, "no", http.StatusForbidden)
	}))
	via, err := url.Parse(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	srv := openenvtest.ServeLoopback(t, openenvtest.Script(t, answer))
	t.Setenv("HTTP_PROXY", proxy.URL())
	t.Setenv("NO_PROXY", "exempt.invalid")
	host, _ := strings.CutPrefix(srv.URL(), "http://")
	use := func(base string, opts ...openenv.Option) []string {
		t.Helper()
		mu.Lock()
		asked = nil
		mu.Unlock()
		env := generic(t, base, opts...)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _ = env.Health(ctx)
		_, _ = env.Reset(ctx)
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
	for _, tt := range []struct {
		name string
		base string
		opts []openenv.Option
		want []string
	}{
		{"loopback, from the environment", srv.URL(), nil, nil},
		{"no proxy", srv.URL(), []openenv.Option{openenv.WithProxy(openenv.NoProxy)}, nil},
		{"fixed", srv.URL(), []openenv.Option{openenv.WithProxy(openenv.ProxyURL(via))}, []string{"GET " + host, "CONNECT " + host}},
		{"from the environment", "http://somewhere.invalid:1", nil, []string{"GET somewhere.invalid:1", "CONNECT somewhere.invalid:1"}},
		{"exempt", "http://exempt.invalid:1", nil, nil},
		{"no substring of localhost", "http://localhost.somewhere.invalid:1", nil, []string{"GET localhost.somewhere.invalid:1", "CONNECT localhost.somewhere.invalid:1"}},
	} {
		if got := use(tt.base, tt.opts...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: proxy was asked for %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Reset parameters reach the server unchanged.
func TestResetParameters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got []string
		env, _ := scripted(t, func(p *openenvtest.Peer) {
			for {
				f, ok := p.Next()
				if !ok || f.Type == "close" {
					return
				}
				got = append(got, f.Text)
				respond(p, f)
			}
		})
		for _, params := range [][]openenv.ResetParam{
			nil,
			{openenv.Seed(7), openenv.EpisodeID("e1")},
			{openenv.Param("level", "x"), openenv.Param("options", openenv.Object{"a": []int{1}})},
		} {
			if _, err := env.Reset(t.Context(), params...); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []string{`{"type":"reset","data":{}}`, `"seed":7`, `"options":{"a":[1]}`} {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s, want %s", got[i], want)
			}
		}
	})
}
