package peerproc_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
)

// recorder stands in for the test that starts a peer, and fails.
type recorder struct {
	testing.TB
	cleanups []func()
	fatal    string
	log      string
}

type ended struct{}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool     { return true }
func (r *recorder) Logf(format string, args ...any) {
	r.log += fmt.Sprintf(format, args...)
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	panic(ended{})
}

func get(t *testing.T, url string) (string, error) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

func TestStartAndKill(t *testing.T) {
	leak.Check(t)
	peer := peerproc.Start(t, "--env", "echo", "--max-sessions", "2")
	body, err := get(t, peer.URL()+"/health")
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"status":"healthy"}`; body != want {
		t.Errorf("GET /health: got %s, want %s", body, want)
	}
	peer.Kill()
	peer.Kill()
	if _, err := get(t, peer.URL()+"/health"); err == nil {
		t.Errorf("%v answers after Kill", peer)
	}
}

// A server that cannot start fails the test at once, with the reason in the log.
func TestStartFailure(t *testing.T) {
	leak.Check(t)
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (ended{}) {
				panic(v)
			}
		}()
		peerproc.Start(r, "--env", "solo", "--max-sessions", "2")
	}()
	for _, f := range r.cleanups {
		f()
	}
	if !strings.Contains(r.fatal, "exit status 1") {
		t.Errorf("failed with %q, want the exit status", r.fatal)
	}
	if !strings.Contains(r.log, "ConcurrencyConfigurationError") {
		t.Errorf("the log does not show the reason:\n%s", r.log)
	}
}
