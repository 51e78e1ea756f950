package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// What the published package's clients see of our server: one row for each scenario
// of peer/client.py.
var pythonResults = map[string]string{
	"generic_async": `{
		"reset": {"observation": {"echoed": "ready", "length": 0, "metadata": {}}, "reward": null, "done": false, "metadata": null},
		"step": {"observation": {"echoed": "héllo 😀", "length": 7, "metadata": {}}, "reward": 0.7000000000000001, "done": false, "metadata": null},
		"state": {"episode_id": "e-1", "step_count": 1}}`,
	"generic_sync": `{
		"reset": {"observation": {"echoed": "ready", "length": 0, "metadata": {}}, "reward": null, "done": false, "metadata": null},
		"step": {"observation": {"echoed": "hi", "length": 2, "metadata": {}}, "reward": 0.2, "done": false, "metadata": null},
		"state": {"episode_id": "e-2", "step_count": 1}}`,
	"generic_bare": `{
		"step": {"observation": {"echoed": "hi", "length": 2, "metadata": {}}, "reward": 0.2, "done": false, "metadata": null},
		"state": {"episode_id": "e-3", "step_count": 1}}`,
	"typed": `{
		"reset": {"observation": {"echoed": "ready", "length": 0, "reward": null, "done": false, "metadata": {}}, "reward": null, "done": false, "metadata": null},
		"step": {"observation": {"echoed": "hi", "length": 2, "reward": 0.2, "done": false, "metadata": {}}, "reward": 0.2, "done": false, "metadata": null},
		"state": {"episode_id": "e-4", "step_count": 1}}`,
	"new_session": `[
		{"episode_id": "parent", "step_count": 0}, {"episode_id": "child-0", "step_count": 1},
		{"episode_id": "child-1", "step_count": 2}, {"episode_id": "child-2", "step_count": 3}]`,
	"gather": gathered(64),
	"large":  `{"same": true}`,
	"capacity": `{
		"refused": "Server error: Server at capacity: 1/1 sessions active. Cannot accept new connections. (code: CAPACITY_REACHED)",
		"afterwards": {"observation": {"echoed": "hi", "length": 2, "metadata": {}}, "reward": 0.2, "done": false, "metadata": null}}`,
	"validation": `{
		"unknown field": "Server error: Invalid message (code: VALIDATION_ERROR)",
		"wrong type": "Server error: Invalid message (code: VALIDATION_ERROR)",
		"afterwards": {"observation": {"echoed": "hi", "length": 2, "metadata": {}}, "reward": 0.2, "done": false, "metadata": null}}`,
}

func gathered(n int) string {
	var all []openenv.Object
	for i := range n {
		all = append(all, openenv.Object{"right": true, "state": openenv.Object{"episode_id": fmt.Sprint("g-", i), "step_count": 5}})
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// The published package's clients, blocking and asynchronous, typed and not, against
// our server.
func TestPythonClients(t *testing.T) {
	leak.Check(t)
	python := testenv.Python(t)
	many, solo := serveEcho(t, 64), serveEcho(t, 1)
	cmd := exec.CommandContext(t.Context(), python, filepath.Join(testenv.Root(t), "interop", "peer", "client.py"), many.url, solo.url)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OPENENV_CLIENT_MODE=simulation")
	cmd.WaitDelay = time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("client.py: %v\n%s", err, log.Bytes())
	}

	played := map[string]bool{}
	for line := range bytes.Lines(out) {
		var got struct {
			Scenario string `json:"scenario"`
			Error    string `json:"error"`
			Result   any    `json:"result"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("client.py printed %q: %v", line, err)
		}
		played[got.Scenario] = true
		t.Run(got.Scenario, func(t *testing.T) {
			if got.Error != "" {
				t.Fatal(got.Error)
			}
			var want any
			if err := json.Unmarshal([]byte(pythonResults[got.Scenario]), &want); err != nil {
				t.Fatalf("no result to compare %v with: %v", got.Result, err)
			}
			if !reflect.DeepEqual(got.Result, want) {
				t.Errorf("got\n%v\nwant\n%v", got.Result, want)
			}
		})
	}
	for scenario := range pythonResults {
		if !played[scenario] {
			t.Errorf("scenario %s was not played", scenario)
		}
	}
	if want := []openenv.Object{{"from": "an agent"}}; !reflect.DeepEqual(many.seen.all, want) {
		t.Errorf("metadata of actions: %v, want that of the typed client's, %v", many.seen.all, want)
	}
	for _, s := range []servedEcho{many, solo} {
		if n := s.server.ActiveSessions(); n != 0 {
			t.Errorf("%d sessions are left at %s", n, s.url)
		}
	}
}

type servedEcho struct {
	server *envserver.Server
	url    string
	seen   *metadataSeen
}

// metadataSeen is what clients sent beside their actions.
type metadataSeen struct {
	mu  sync.Mutex
	all []openenv.Object
}

// noting is the echo environment, which notes the metadata of actions.
type noting struct {
	*echo.Env

	seen *metadataSeen
}

func (n noting) Step(ctx context.Context, a echo.Action) (openenv.StepResult[echo.Observation], error) {
	if m := envserver.ActionMetadata(ctx); len(m) > 0 {
		n.seen.mu.Lock()
		n.seen.all = append(n.seen.all, m)
		n.seen.mu.Unlock()
	}
	return n.Env.Step(ctx, a)
}

func serveEcho(t *testing.T, sessions int) servedEcho {
	t.Helper()
	seen := new(metadataSeen)
	build := func(ctx context.Context) (noting, error) {
		env, err := echo.New(ctx)
		return noting{env, seen}, err
	}
	srv, err := envserver.New(echo.Spec, build, envserver.WithMaxSessions(sessions), envserver.WithConcurrentSessions())
	if err != nil {
		t.Fatal(err)
	}
	return servedEcho{srv, openenvtest.ServeLoopback(t, srv).URL(), seen}
}
