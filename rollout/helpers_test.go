package rollout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/catalog"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/stats"
)

// server makes one of the environments that ship.
func server(t *testing.T, name string, sessions int) *envserver.Server {
	t.Helper()
	entry, err := catalog.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := entry.New(envserver.WithMaxSessions(sessions), envserver.WithLease(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// messages is a policy for echo environments: it says words, its episode's number with
// them, and ends the episode now and then where that can be done.
func messages() rollout.Policy[json.RawMessage, json.RawMessage] {
	return rollout.Func("messages", func(_ context.Context, rng *rand.Rand, _ openenv.StepResult[json.RawMessage]) (json.RawMessage, error) {
		if rng.IntN(6) == 0 {
			return json.RawMessage(`{"message":"done"}`), nil
		}
		return json.Marshal(map[string]string{"message": fmt.Sprintf("word %d", rng.IntN(1_000_000))})
	})
}

// play plays a run to its end.
func play(t *testing.T, target rollout.Target, policy rollout.Policy[json.RawMessage, json.RawMessage], cfg rollout.Config) stats.Summary {
	t.Helper()
	run, err := rollout.Run(t.Context(), rollout.Raw, target, policy, cfg)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := run.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

func load(t *testing.T, path string) *record.File {
	t.Helper()
	file, err := record.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// out is a new file's name.
func out(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "run.jsonl")
}

// apartFromAttempts is the lines of the episodes of a file, sorted, without what
// differs from run to run.
func apartFromAttempts(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range bytes.Lines(content) {
		text, _, found := strings.Cut(string(line), `,"attempts":`)
		if found {
			lines = append(lines, text)
		}
	}
	slices.Sort(lines)
	return lines
}

// compare reports the first lines that differ.
func compare(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d episodes, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("got\n%.600s\nwant\n%.600s", got[i], want[i])
			return
		}
	}
}

// field is a text in a JSON object.
func field(t *testing.T, raw []byte, name string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	text, _ := object[name].(string)
	return text
}
