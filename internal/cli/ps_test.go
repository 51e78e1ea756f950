package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv/internal/leak"
)

// managerEngine is an engine that manages a swarm, with a service whose owner is on
// another machine and a container without an owner.
func managerEngine(t *testing.T) {
	t.Helper()
	created := time.Now().Add(-3 * time.Hour).UTC()
	label, err := json.Marshal(`{"host":"elsewhere\u001b[2J","pid":17}`)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"/_ping":           `OK`,
		"/info":            `{"Swarm":{"ControlAvailable":true}}`,
		"/containers/json": fmt.Sprintf(`[{"Id":"c1","Names":["/openenv-echo-1"],"Image":"echo","State":"exited","Created":%d,"Labels":{"openenv-go.provider":"docker"}}]`, time.Now().Unix()),
		"/services":        fmt.Sprintf(`[{"ID":"s1","CreatedAt":%q,"Spec":{"Name":"openenv-echo-2","Labels":{"openenv-go.provider":"swarm","openenv-go.owner":%s},"TaskTemplate":{"ContainerSpec":{"Image":"echo:1@sha256:00"}}},"ServiceStatus":{"RunningTasks":2,"DesiredTasks":3}}]`, created.Format(time.RFC3339), label),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for path, body := range answers {
			if strings.HasSuffix(r.URL.Path, path) {
				w.Header().Set("Api-Version", "1.44")
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(body))
				return
			}
		}
		http.Error(w, `{"message":"no"}`, http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	t.Setenv("DOCKER_HOST", "tcp://"+strings.TrimPrefix(s.URL, "http://"))
}

func TestPsOfASwarm(t *testing.T) {
	leak.Check(t)
	managerEngine(t)
	var out bytes.Buffer
	s := &Streams{Out: &out}
	if err := (&psOptions{streams: s}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `NAME            IMAGE   URL  STATE   AGE  OWNER
openenv-echo-1  echo    -    exited  0s   0, unknown
openenv-echo-2  echo:1  -    2/3     3h   17 on elsewhere?[2J
`
	if got := out.String(); got != want && got != strings.Replace(want, "0s ", "1s ", 1) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	out.Reset()
	if err := (&pruneOptions{streams: s, olderThan: time.Hour, dryRun: true}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "would remove service openenv-echo-2 of echo:1, 3h old, of process 17 on elsewhere?[2J\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	if err := (&pruneOptions{streams: s}).run(context.Background()); err == nil || codeOf(err) != exitFailure {
		t.Errorf("an engine that fails half-way: %v", err)
	}
}

func TestOwner(t *testing.T) {
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		pid   int
		host  string
		stale bool
		want  string
	}{
		{17, here, false, "17, alive"},
		{17, here, true, "17, gone"},
		{17, here + "-2", false, "17 on " + here + "-2"},
		{0, "", false, "0, unknown"},
	} {
		if got := newOwner(tt.pid, tt.host, tt.stale).String(); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestAge(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		-time.Hour: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m", 90 * time.Minute: "1h", 47*time.Hour + time.Minute: "47h", 50 * time.Hour: "2d",
	} {
		if got := age(time.Now().Add(-ago)); got != want {
			t.Errorf("%v ago: %s, want %s", ago, got, want)
		}
	}
}
