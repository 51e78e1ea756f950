//go:build unix

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/wait"
	"github.com/openenv-go/openenv/internal/leak"
)

type waitStep = openenv.Future[openenv.StepResult[wait.Observation]]

// metric reads one of the server's numbers.
func metric(t *testing.T, base, name string) float64 {
	t.Helper()
	res, err := http.Get(base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if value, ok := strings.CutPrefix(string(line), name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in %s", name, text)
	return 0
}

// until polls what no event tells.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for: %s", what)
		}
	}
}

// waiting serves the wait environment and returns when a step of so many seconds runs.
func waiting(t *testing.T, seconds float64, args ...string) (*launched, *waitStep) {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s := startServe(t, nil, append([]string{"wait", "--port", "0"}, args...)...)
	env, err := openenv.New(wait.Spec, s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	session, err := env.Async().NewSession().Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Async().Reset().Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := metric(t, s.url, "openenv_received_bytes_total")
	step := session.Async().Step(wait.Action{WaitS: seconds}).Start(t.Context())
	until(t, "the step's arrival", func() bool { return metric(t, s.url, "openenv_received_bytes_total") > before })
	return s, step
}

// closed waits until the server takes no connections: then it has seen the signal.
func closed(t *testing.T, base string) {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the listener's end", func() bool {
		conn, err := net.Dial("tcp", u.Host)
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

func send(t *testing.T, s *launched, sig os.Signal) {
	t.Helper()
	if err := s.signal(sig); err != nil {
		t.Fatal(err)
	}
}

func endsWith(t *testing.T, s *launched, want int) {
	t.Helper()
	code, err := s.ends()
	if err != nil {
		t.Fatal(err)
	}
	if code != want {
		t.Errorf("exit code %d, want %d; it wrote %s", code, want, s.stderr.Bytes())
	}
}

func TestServeLetsAStepFinish(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(sig.String(), func(t *testing.T) {
			leak.Check(t)
			s, step := waiting(t, 0.5)
			send(t, s, sig)
			closed(t, s.url)
			if res, err := step.Await(t.Context()); err != nil || res.Observation.WaitedS < 0.5 {
				t.Errorf("the step: %+v, %v", res, err)
			}
			endsWith(t, s, 0)
			if s.stderr.Len() > 0 {
				t.Errorf("it wrote %s", s.stderr.Bytes())
			}
		})
	}
}

func TestServeCancelsAStepAfterTheGracePeriod(t *testing.T) {
	leak.Check(t)
	s, step := waiting(t, 3600, "--grace", "100ms")
	begun := time.Now()
	send(t, s, syscall.SIGTERM)
	if res, err := step.Await(t.Context()); err == nil {
		t.Errorf("the step: %+v", res)
	}
	endsWith(t, s, 0)
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}

func TestServeEndsAtOnceAtTheSecondSignal(t *testing.T) {
	for _, tt := range []struct {
		second os.Signal
		code   int
	}{{syscall.SIGTERM, 143}, {os.Interrupt, 130}} {
		t.Run(tt.second.String(), func(t *testing.T) {
			leak.Check(t)
			s, step := waiting(t, 3600, "--grace", "1h")
			send(t, s, syscall.SIGTERM)
			closed(t, s.url)
			send(t, s, tt.second)
			endsWith(t, s, tt.code)
			if res, err := step.Await(t.Context()); err == nil {
				t.Errorf("the step: %+v", res)
			}
			if want := "oenv: serve: ended by a second signal (" + tt.second.String() + "): what ran was cut off\n"; s.stderr.String() != want {
				t.Errorf("it wrote %q, want %q", s.stderr.String(), want)
			}
		})
	}
}

func TestServeSessions(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		want float64
	}{
		{"default", nil, nil, 64},
		{"empty variable", []string{"MAX_CONCURRENT_ENVS="}, nil, 64},
		{"variable", []string{"MAX_CONCURRENT_ENVS=3"}, nil, 3},
		{"flag", []string{"MAX_CONCURRENT_ENVS=abc"}, []string{"--max-sessions", "5"}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			t.Cleanup(http.DefaultClient.CloseIdleConnections)
			s := startServe(t, tt.env, append([]string{"echo", "--port", "0"}, tt.args...)...)
			if got := metric(t, s.url, "openenv_sessions_limit"); got != tt.want {
				t.Errorf("%v sessions, want %v", got, tt.want)
			}
		})
	}
}

func TestServerURL(t *testing.T) {
	for host, want := range map[string]string{
		"":          "http://127.0.0.1:80",
		"127.0.0.1": "http://127.0.0.1:80",
		"localhost": "http://localhost:80",
		"0.0.0.0":   "http://127.0.0.1:80",
		"::":        "http://[::1]:80",
		"::1":       "http://[::1]:80",
		"10.0.0.1":  "http://10.0.0.1:80",
	} {
		if got := serverURL(host, 80); got != want {
			t.Errorf("serverURL(%q, 80) = %s, want %s", host, got, want)
		}
	}
}

// A server that ends by itself is not waited for.
func TestServeReportsItsError(t *testing.T) {
	broken := errors.New("broken")
	err := untilSignals(t.Context(), &Streams{Err: io.Discard}, nil, "serve", "", func(context.Context) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("untilSignals: %v", err)
	}
}
