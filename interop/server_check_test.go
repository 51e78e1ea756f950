package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/catalog"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// Every environment that ships passes the published package's own validation, in both
// modes, and describes itself in valid OpenAPI.
func TestPeerValidatesOurServers(t *testing.T) {
	leak.Check(t)
	python := testenv.Python(t)
	names := map[string]string{} // by URL
	args := []string{filepath.Join(testenv.Root(t), "interop", "peer", "check.py")}
	for _, entry := range catalog.All() {
		for _, mode := range []openenv.Mode{openenv.ModeSimulation, openenv.ModeProduction} {
			srv, err := entry.New(envserver.WithMode(mode))
			if err != nil {
				t.Fatal(err)
			}
			url := openenvtest.ServeLoopback(t, srv).URL()
			names[url] = entry.Name + " in " + string(mode)
			args = append(args, url)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "NO_COLOR=1")
	cmd.WaitDelay = time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("check.py: %v\n%s", err, log.Bytes())
	}
	for line := range bytes.Lines(out) {
		var got struct {
			URL      string  `json:"url"`
			ExitCode int     `json:"exit_code"`
			Output   string  `json:"output"`
			OpenAPI  *string `json:"openapi"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("check.py printed %q: %v", line, err)
		}
		t.Run(names[got.URL], func(t *testing.T) {
			if got.ExitCode != 0 || !strings.Contains(got.Output, "Verdict: PASS") {
				t.Errorf("openenv validate: exit %d\n%s", got.ExitCode, got.Output)
			}
			if got.OpenAPI != nil {
				t.Errorf("openapi.json: %s", *got.OpenAPI)
			}
		})
		delete(names, got.URL)
	}
	for _, name := range names {
		t.Errorf("%s was not checked", name)
	}
}
