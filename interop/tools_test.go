package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/openenv-go/openenv/envs/files"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// What clients of tools see of our server: one row for each scenario of peer/tools.py.
var toolResults = map[string]string{
	"standard": `{
		"server": "files", "tools": ["list", "read", "search", "write"], "read_only": ["list", "read", "search"],
		"wrote": {"path": "a", "bytes": 7}, "found": {"hits": [{"path": "a", "line": 1, "text": "héllo"}], "truncated": false},
		"outside": true, "invalid": true, "unknown": "Unknown tool: 'nope'"}`,
	"tool_client": `{
		"tools": ["list", "read", "search", "write"], "described": true, "started": "The directory is empty.",
		"wrote": {"path": "a", "bytes": 2}, "read": {"path": "a", "text": "hi"},
		"failed": "Tool 'read' failed: Error calling tool 'read': openat b: no such file or directory",
		"stepped": {"entries": [{"name": "a", "is_dir": false, "size": 2}], "truncated": false},
		"state": 1, "again": false, "empty": {"entries": [], "truncated": false}}`,
	"rounds": `50`,
}

// The official Python client of the standard protocol and the published package's
// client of tools, in turn, on a server with one slot.
func TestPythonToolClients(t *testing.T) {
	leak.Check(t)
	python := testenv.Python(t)
	out := runClient(t, python, filepath.Join("peer", "tools.py"))
	seen := 0
	for line := range bytes.Lines(out) {
		var got struct {
			Scenario string `json:"scenario"`
			Result   any    `json:"result"`
			Error    string `json:"error"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		seen++
		if got.Error != "" {
			t.Errorf("%s: %s", got.Scenario, got.Error)
			continue
		}
		wantJSON(t, got.Scenario, toolResults[got.Scenario], got.Result)
	}
	if seen != 5 {
		t.Errorf("%d scenarios ran, want 5", seen)
	}
}

// The official TypeScript client, twice on a server with one slot.
func TestTypeScriptClient(t *testing.T) {
	leak.Check(t)
	node := testenv.Node(t)
	out := runClient(t, node, filepath.Join("node", "client.mjs"))
	seen := 0
	for line := range bytes.Lines(out) {
		var got any
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		seen++
		wantJSON(t, "session", `{
			"server": "files", "tools": ["list", "read", "search", "write"],
			"wrote": {"path": "a", "bytes": 7}, "found": {"hits": [{"path": "a", "line": 1, "text": "héllo"}], "truncated": false},
			"outside": true, "unknown": "MCP error -32602: Unknown tool: 'nope'"}`, got)
	}
	if seen != 2 {
		t.Errorf("%d sessions", seen)
	}
}

// runClient runs a script against a server of the files environment with one slot.
func runClient(t *testing.T, program, script string) []byte {
	t.Helper()
	srv, err := envserver.New(files.Spec, files.New)
	if err != nil {
		t.Fatal(err)
	}
	s := openenvtest.ServeLoopback(t, srv)
	cmd := exec.CommandContext(t.Context(), program, filepath.Join(testenv.Root(t), "interop", script), s.URL())
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, out, log.Bytes())
	}
	for limit := time.Now().Add(10 * time.Second); srv.ActiveSessions() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Errorf("%d sessions are left", srv.ActiveSessions())
			break
		}
	}
	return out
}

func wantJSON(t *testing.T, what, want string, got any) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %q: %v", what, want, err)
	}
	if !reflect.DeepEqual(w, got) {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s: got %s\nwant %s", what, text, want)
	}
}
