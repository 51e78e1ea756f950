package load_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/wait"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/load"
)

// serve serves the wait environment on a loopback port of this process.
func serve(t *testing.T, sessions int, wrap func(http.Handler) http.Handler) (url string) {
	t.Helper()
	srv, err := envserver.New(wait.Spec, wait.New, envserver.WithMaxSessions(sessions))
	if err != nil {
		t.Fatal(err)
	}
	var h http.Handler = srv
	if wrap != nil {
		h = wrap(srv)
	}
	ts := httptest.NewServer(h)
	t.Cleanup(func() {
		_ = srv.Shutdown(context.Background())
		ts.Close()
	})
	return ts.URL
}

func run(t *testing.T, p load.Plan) *load.Result {
	t.Helper()
	res, err := load.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestRun(t *testing.T) {
	leak.Check(t)
	url := serve(t, 8, nil)
	res := run(t, load.Plan{URL: url, Sessions: 8, Steps: 3, Action: []byte(`{"wait_s":0.02}`), Dials: 2})
	if err := res.Err(); err != nil || res.Succeeded != 8 || res.SuccessRate != 1 || res.Steps != 24 || len(res.Failures) > 0 {
		t.Errorf("got %+v, %v", res, err)
	}
	for name, l := range map[string]struct {
		got   load.Latency
		count int64
		least float64
	}{
		"connect": {res.Connect, 8, 0}, "reset": {res.Reset, 8, 0}, "step": {res.Step, 24, 19.9}, "total": {res.Total, 8, 59.9},
	} {
		g := l.got
		if g.Count != l.count || g.P50 < l.least || g.Max < g.P99 || g.P99 < g.P50 || g.Max <= 0 {
			t.Errorf("%s: %+v, want %d of at least %v ms", name, g, l.count, l.least)
		}
	}
	if res.Seconds < 0.06 || res.StepsPerSecond > 24/res.Seconds*1.001 || res.PeakOpen < 2 || res.PeakOpen > 8 {
		t.Errorf("%v s, %v steps/s, %d at once", res.Seconds, res.StepsPerSecond, res.PeakOpen)
	}
}

func TestRunMeasuresProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are measured on Linux alone")
	}
	leak.Check(t)
	url := serve(t, 4, nil)
	res := run(t, load.Plan{URL: url, Sessions: 4})
	if res.Client == nil || res.Client.PID != os.Getpid() || res.Client.Before <= 0 || res.Client.Peak < res.Client.Before {
		t.Errorf("client: %+v", res.Client)
	}
	if res.Server != nil {
		t.Errorf("the server is this process, and was measured again: %+v", res.Server)
	}
	res = run(t, load.Plan{URL: url, Sessions: 4, Server: os.Getppid()})
	if res.Server == nil || res.Server.PID != os.Getppid() || res.Server.Before <= 0 {
		t.Errorf("a server by its number: %+v", res.Server)
	}
}

func TestHold(t *testing.T) {
	leak.Check(t)
	url := serve(t, 6, nil)
	res := run(t, load.Plan{
		URL: url, Sessions: 6, Steps: 1, Action: []byte(`{"wait_s":0}`), Dials: 1,
		Hold: 600 * time.Millisecond, Every: 50 * time.Millisecond,
	})
	if err := res.Err(); err != nil || res.PeakOpen != 6 {
		t.Errorf("%v, %d at once", err, res.PeakOpen)
	}
	if res.Steps < 12 {
		t.Errorf("%d steps, want those of the hold, too", res.Steps)
	}
	if len(res.Held) < 2 {
		t.Fatalf("%d samples", len(res.Held))
	}
	for _, s := range res.Held {
		if s.Open != 6 {
			t.Errorf("at %v s %d sessions were open", s.At, s.Open)
		}
	}
}

func TestFailuresAreCountedByKind(t *testing.T) {
	leak.Check(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, tt := range []struct {
		name string
		plan load.Plan
		kind string
		some bool // others succeed
		is   error
	}{
		{"nobody listens", load.Plan{URL: "http://" + closed.Addr().String()}, "connect: refused", false, nil},
		{"a full server", load.Plan{URL: serve(t, 2, nil), Steps: 1, Action: []byte(`{"wait_s":0.5}`)}, "connect: capacity_reached", true, openenv.ErrCapacity},
		{"an action that is refused", load.Plan{URL: serve(t, 8, nil), Steps: 1, Action: []byte(`{"wait":1}`)}, "step: validation_error", false, nil},
		{"no reply in time", load.Plan{URL: serve(t, 8, nil), Steps: 1, Action: []byte(`{"wait_s":60}`), Timeout: 300 * time.Millisecond}, "step: timeout", false, openenv.ErrMessageTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.plan.Sessions = 8
			res := run(t, tt.plan)
			if len(res.Failures) != 1 || res.Failures[0].Kind != tt.kind || res.Failures[0].Example == "" {
				t.Fatalf("got %+v, want only %s", res.Failures, tt.kind)
			}
			if failed := res.Failures[0].Count; failed+res.Succeeded != 8 || (res.Succeeded > 0) != tt.some {
				t.Errorf("%d failed, %d succeeded", failed, res.Succeeded)
			}
			if err := res.Err(); err == nil || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error %v, want one that matches %v", err, tt.is)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	leak.Check(t)
	url := serve(t, 4, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	res, err := load.Run(ctx, load.Plan{URL: url, Sessions: 4, Steps: 1, Action: []byte(`{"wait_s":60}`)})
	if err != nil {
		t.Fatal(err)
	}
	if res.Succeeded != 0 || res.Err() == nil {
		t.Errorf("got %+v", res)
	}
}

func TestPlansThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		plan load.Plan
		want string
	}{
		{load.Plan{URL: "http://localhost", Sessions: 0}, "0 sessions"},
		{load.Plan{URL: "http://localhost", Sessions: 1, Steps: -1}, "negative"},
		{load.Plan{URL: "http://localhost", Sessions: 1, Hold: -1}, "negative"},
		{load.Plan{URL: "http://localhost", Sessions: 1, Steps: 1}, "without an action"},
		{load.Plan{URL: "http://localhost", Sessions: 1, Sources: 1000}, "at most"},
		{load.Plan{URL: "ftp://localhost", Sessions: 1}, "scheme"},
	} {
		if _, err := load.Run(t.Context(), tt.plan); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.plan, err, tt.want)
		}
	}
}

// One loopback address has too few ports for many sessions.
func TestSessionsComeFromSeveralAddresses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux alone routes all loopback addresses")
	}
	leak.Check(t)
	var mu sync.Mutex
	from := map[string]int{}
	url := serve(t, 16, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			mu.Lock()
			from[host]++
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	})
	if err := run(t, load.Plan{URL: url, Sessions: 16, Sources: 4}).Err(); err != nil {
		t.Fatal(err)
	}
	if len(from) != 4 {
		t.Errorf("connections came from %v, want four addresses", from)
	}
	clear(from)
	if err := run(t, load.Plan{URL: url, Sessions: 4}).Err(); err != nil {
		t.Fatal(err)
	}
	if len(from) != 1 {
		t.Errorf("a few connections came from %v, want one address", from)
	}
}
