package cli

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
)

// generate makes an environment that uses this checkout.
func generate(t *testing.T) (dir string) {
	t.Helper()
	root := testenv.Root(t)
	dir = filepath.Join(t.TempDir(), "maze")
	var out, log bytes.Buffer
	if code := Main([]string{"init", dir, "--replace", root}, &Streams{Out: &out, Err: &log}); code != 0 {
		t.Fatalf("init: exit code %d: %s", code, log.Bytes())
	}
	// The checksums of what this module needs, so that none are asked of the network.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a program in dir, which must succeed, and returns what it prints.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// validateScript gives the validator one command line after the other: loading it takes
// longer than all that it does.
const validateScript = `
import json, sys
from openenv.cli.__main__ import app
for args in json.loads(sys.argv[1]):
    app(["validate", *args], standalone_mode=False)
`

// The result of init builds, is formatted, passes its tests and serves, unchanged.
func TestInitMakesAnEnvironmentThatWorks(t *testing.T) {
	leak.Check(t)
	dir := generate(t)
	if unformatted := run(t, dir, "gofmt", "-l", "."); unformatted != "" {
		t.Errorf("gofmt would change %s", unformatted)
	}
	run(t, dir, "go", "mod", "tidy")
	run(t, dir, "go", "vet", "./...")
	run(t, dir, "go", "test", "./...")
	s := launchGenerated(t, dir)
	var out, log bytes.Buffer
	in := strings.NewReader("reset seed=1\n{\"guess\": 50}\n")
	if code := Main([]string{"play", s.url}, &Streams{In: in, Out: &out, Err: &log}); code != 0 || !strings.Contains(out.String(), `"tries_left":6`) {
		t.Errorf("play: exit code %d, %s%s", code, out.Bytes(), log.Bytes())
	}
	if err := s.signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, err := s.ends(); err != nil || code != 0 {
		t.Errorf("the server ends with %d, %v: %s", code, err, s.stderr.Bytes())
	}
}

func launchGenerated(t *testing.T, dir string) *launched {
	t.Helper()
	server := filepath.Join(dir, "bin", "server")
	run(t, dir, "go", "build", "-o", server, "./server")
	s, err := launch(exec.Command(server, "--port", "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// What init makes is what the published package's validator asks for, unchanged.
func TestInitMakesAnEnvironmentThatValidates(t *testing.T) {
	leak.Check(t)
	python := testenv.Python(t)
	dir := generate(t)
	run(t, dir, "go", "mod", "tidy")
	s := launchGenerated(t, dir)
	lines, err := json.Marshal([][]string{{"--url", s.url, "--timeout", "20"}, {dir, "--level", "static", "--skip-build"}})
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, dir, python, "-c", validateScript, string(lines))
	if strings.Count(out, "Verdict: PASS") != 2 {
		t.Errorf("validate: %s", out)
	}
}

// Every template is written under some name.
func TestInitialFiles(t *testing.T) {
	used := map[string]bool{}
	for _, f := range initialFiles {
		used["initial/"+f.template+".tmpl"] = true
	}
	found := map[string]bool{}
	err := fs.WalkDir(initial, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			found[name] = true
		}
		return err
	})
	if err != nil || !maps.Equal(used, found) {
		t.Errorf("embedded %v, written %v, %v", found, used, err)
	}
}

func TestReleased(t *testing.T) {
	for _, tt := range []struct{ path, version, want string }{
		{modulePath, "v1.2.3", "v1.2.3"},
		{modulePath, "v0.0.0-20260102030405-0123456789ab", "v0.0.0-20260102030405-0123456789ab"},
		{modulePath, "v0.0.0-20260102030405-0123456789ab+dirty", ""},
		{modulePath, "(devel)", ""},
		{modulePath, "", ""},
		{"example.com/fork", "v1.2.3", ""},
	} {
		if got := released(&debug.BuildInfo{Main: debug.Module{Path: tt.path, Version: tt.version}}); got != tt.want {
			t.Errorf("released(%s %s) = %q, want %q", tt.path, tt.version, got, tt.want)
		}
	}
}

func TestGoModOfAReleasedVersion(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    project
		want string
	}{
		{"released", project{Version: "v1.2.3"}, "require " + modulePath + " v1.2.3\n"},
		{"replaced", project{Version: "v1.2.3", Replace: quotePath("/a b/c")}, "require " + modulePath + " v1.2.3\n\nreplace " + modulePath + " => \"/a b/c\"\n"},
	} {
		tt.p.Module, tt.p.Library, tt.p.Go = "maze", modulePath, "1.26.8"
		got, err := tt.p.fill("initial/go.mod.tmpl")
		if want := "module maze\n\ngo 1.26.8\n\n" + tt.want; err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", tt.name, err, got)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"maze": true, "my_maze": true, "my-maze-2": true, "m": true, "openenv": true, "env": true,
		"": false, "2maze": false, "Maze": false, "ma ze": false, "ma/ze": false, "_maze": false, "maze_": false,
		"a--b": false, "mäze": false, "..": false, "type": false, "go": false, "main": false, "ma-in": false,
		"documentation": false, strings.Repeat("a", 65): false,
	} {
		if err := checkName(name); (err == nil) != want {
			t.Errorf("checkName(%q): %v", name, err)
		}
	}
	for module, want := range map[string]bool{
		"maze": true, "example.com/a/maze": true, "example.com/a/maze/v2": true, "my_maze": true, "a.b~c/d": true,
		"": false, "/maze": false, "maze/": false, "a//b": false, "a b": false, ".": false, "../maze": false, "a/.b": false,
		"time": false, "net/maze": false, "cmd": false, modulePath: false, modulePath + "/maze": false,
	} {
		if err := checkModule(module); (err == nil) != want {
			t.Errorf("checkModule(%q): %v", module, err)
		}
	}
}

// What init knows of Go and of this module is still so.
func TestInitKnowsTheToolchain(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(testenv.Root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"module " + modulePath + "\n", "\ngo " + goVersion + "\n"} {
		if !strings.Contains(string(mod), want) {
			t.Errorf("go.mod has no line %q", want)
		}
	}
	for pkg := range strings.FieldsSeq(run(t, ".", "go", "list", "std", "cmd")) {
		if first, _, _ := strings.Cut(pkg, "/"); !slices.Contains(standard, first) {
			t.Errorf("standard lacks %s", first)
		}
	}
}

func TestWriteStaysInItsFolder(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.Symlink(outside, filepath.Join(dir, "Makefile")); err != nil {
		t.Skipf("this system makes no links: %v", err)
	}
	o := &initOptions{force: true}
	if err := o.write(dir, []file{{"Makefile", []byte("x")}}); err == nil {
		t.Error("a link out of the folder is followed")
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("a file outside of the folder was written")
	}
}
