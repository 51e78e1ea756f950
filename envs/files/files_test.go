package files_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/envs/files"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

func newEnv(t *testing.T) *files.Env {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	env, err := files.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return env
}

// call calls a tool and decodes its structured content.
func call[Out any](t *testing.T, env *files.Env, tool string, in any) (Out, error) {
	t.Helper()
	var out Out
	arguments, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	res, err := env.CallTool(t.Context(), tool, arguments)
	switch {
	case err != nil:
		return out, err
	case res.IsError:
		return out, errors.New(res.Content[0].(*sdk.TextContent).Text)
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return out, json.Unmarshal(text, &out)
}

func TestWriteReadListSearch(t *testing.T) {
	leak.Check(t)
	env := newEnv(t)
	for path, text := range map[string]string{"a.txt": "one\ntwo\n", "sub/deep/b.txt": "two\r\nthree two\n", "c": ""} {
		if out, err := call[files.Written](t, env, "write", files.WriteInput{Path: path, Text: text}); err != nil || out.Bytes != len(text) {
			t.Fatalf("write %s: %+v, %v", path, out, err)
		}
	}
	if out, err := call[files.Content](t, env, "read", files.ReadInput{Path: "sub/deep/b.txt"}); err != nil || out.Text != "two\r\nthree two\n" {
		t.Errorf("read: %+v, %v", out, err)
	}
	root, err := call[files.Listing](t, env, "list", files.ListInput{})
	if want := "{[{a.txt false 8} {c false 0} {sub true 0}] false}"; err != nil || fmt.Sprint(root) != want {
		t.Errorf("list: %v, %v, want %s", root, err, want)
	}
	if sub, err := call[files.Listing](t, env, "list", files.ListInput{Path: "sub/deep/"}); err != nil || len(sub.Entries) != 1 {
		t.Errorf("list sub: %v, %v", sub, err)
	}
	hits, err := call[files.Hits](t, env, "search", files.SearchInput{Text: "two"})
	if want := "{[{a.txt 2 two} {sub/deep/b.txt 1 two} {sub/deep/b.txt 2 three two}] false}"; err != nil || fmt.Sprint(hits) != want {
		t.Errorf("search: %v, %v, want %s", hits, err, want)
	}
	if hits, err := call[files.Hits](t, env, "search", files.SearchInput{Text: "two", Path: "sub"}); err != nil || len(hits.Hits) != 2 {
		t.Errorf("search sub: %v, %v", hits, err)
	}
	if _, err := call[files.Written](t, env, "write", files.WriteInput{Path: "a.txt", Text: "new"}); err != nil {
		t.Error(err)
	}
	if out, err := call[files.Content](t, env, "read", files.ReadInput{Path: "a.txt"}); err != nil || out.Text != "new" {
		t.Errorf("a file is replaced: %+v, %v", out, err)
	}
}

// No path leads out of the session's directory.
func TestNoPathLeavesTheDirectory(t *testing.T) {
	leak.Check(t)
	env := newEnv(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(os.TempDir(), "openenv-files-*", "*"))
	if err != nil || len(made) != 1 {
		t.Fatalf("%v, %v", made, err)
	}
	// A tool cannot make these; a program that shares the directory could.
	for link, to := range map[string]string{"file": secret, "dir": outside, "up": "..", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(made[0], link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{secret, "../secret", "a/../../secret", "file", "dir/secret", "up/x", "loop", "..", "/", "dir", "up", "sub/../../x", "\x00", ""} {
		if out, err := call[files.Content](t, env, "read", files.ReadInput{Path: path}); err == nil {
			t.Errorf("read %q: %+v", path, out)
		}
		if out, err := call[files.Written](t, env, "write", files.WriteInput{Path: path, Text: "x"}); err == nil {
			t.Errorf("write %q: %+v", path, out)
		}
		if path == "" {
			continue // the root itself
		}
		if out, err := call[files.Listing](t, env, "list", files.ListInput{Path: path}); err == nil {
			t.Errorf("list %q: %+v", path, out)
		}
		if out, err := call[files.Hits](t, env, "search", files.SearchInput{Path: path, Text: "key"}); err == nil && len(out.Hits) > 0 {
			t.Errorf("search %q: %+v", path, out)
		}
	}
	if out, err := call[files.Hits](t, env, "search", files.SearchInput{Text: "key"}); err != nil || len(out.Hits) != 0 {
		t.Errorf("search follows links: %+v, %v", out, err)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "key" {
		t.Errorf("the file outside: %q, %v", text, err)
	}
}

func TestLimits(t *testing.T) {
	leak.Check(t)
	env := newEnv(t)
	big := strings.Repeat("x", files.MaxFile)
	write := func(path, text string) error {
		_, err := call[files.Written](t, env, "write", files.WriteInput{Path: path, Text: text})
		return err
	}
	if err := write("big", big+"x"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("too large: %v", err)
	}
	for i := range files.MaxTotal / files.MaxFile {
		if err := write(fmt.Sprint("big", i), big); err != nil {
			t.Fatal(err)
		}
	}
	if err := write("one more", "x"); err == nil || !strings.Contains(err.Error(), "all files together") {
		t.Errorf("too much: %v", err)
	}
	if err := write("big0", big); err != nil {
		t.Errorf("replacing one of them: %v", err)
	}
	if err := write(strings.Repeat("d/", files.MaxFiles)+"f", ""); err == nil || !strings.Contains(err.Error(), "files and directories") {
		t.Errorf("too many: %v", err)
	}
	if _, err := env.Reset(t.Context(), envserver.ResetParams{}); err != nil {
		t.Fatal(err)
	}
	if err := write("lines", strings.Repeat("x\n", files.MaxHits+1)); err != nil {
		t.Errorf("after a reset: %v", err)
	}
	if hits, err := call[files.Hits](t, env, "search", files.SearchInput{Text: "x"}); err != nil || len(hits.Hits) != files.MaxHits || !hits.Truncated {
		t.Errorf("search: %d hits, %v", len(hits.Hits), err)
	}
	if _, err := call[files.Hits](t, env, "search", files.SearchInput{}); err == nil {
		t.Error("a search for nothing is no error")
	}
}

// What is not a text cannot be read, and does not end a search.
func TestFilesThatAreNoTexts(t *testing.T) {
	leak.Check(t)
	env := newEnv(t)
	made, err := filepath.Glob(filepath.Join(os.TempDir(), "openenv-files-*", "*"))
	if err != nil || len(made) != 1 {
		t.Fatalf("%v, %v", made, err)
	}
	if err := os.WriteFile(filepath.Join(made[0], "binary"), []byte("x\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := call[files.Written](t, env, "write", files.WriteInput{Path: "text", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := call[files.Content](t, env, "read", files.ReadInput{Path: "binary"}); err == nil || !strings.Contains(err.Error(), "not a text") {
		t.Errorf("read: %v", err)
	}
	if hits, err := call[files.Hits](t, env, "search", files.SearchInput{Text: "x"}); err != nil || len(hits.Hits) != 1 {
		t.Errorf("search: %+v, %v", hits, err)
	}
}
