package openenv_test

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/openenv-go/openenv"

// layers is the table of the architecture, lowest layer first. A package may
// import those of its row's list, whatever else Go would allow; in a list "…"
// stands for every row above. Names are relative to the module, "." is the root;
// "dir/*" is every package below dir. The first row that matches a package is
// its own. A package without a row fails the test: it is given a place first.
var layers = []struct {
	pkg     string
	imports []string
}{
	{"internal/wire", nil},
	{"internal/netx", nil},
	{"internal/proc", nil},
	{"internal/wsock", nil},
	{"internal/memnet", nil},
	{"internal/relay", nil},
	{"internal/leak", nil},
	{"internal/testenv", nil},
	{"internal/tooljson", nil},
	{"internal/plot", nil},
	{"provider", nil},

	{"internal/peerproc", []string{"internal/testenv"}},
	{"internal/rpc", []string{"internal/wire", "internal/netx"}},
	{"internal/session", []string{"internal/wire", "internal/netx", "internal/rpc", "internal/wsock"}},
	{".", []string{"internal/session", "internal/rpc", "internal/wire", "internal/netx", "internal/wsock", "provider"}},

	{"envserver", upTo(".", "internal/tooljson")},
	{"internal/load", upTo(".")},
	{"rubric", upTo(".")},
	{"rubric/*", upTo(".", "rubric")},
	{"provider/providertest", upTo(".", "internal/leak")},
	{"provider/internal/*", upTo(".", "provider/internal/*")},
	{"provider/*", upTo(".", "provider/*", "provider/internal/*")},
	{"internal/dockertest", upTo(".", "internal/testenv")},
	{"hub", upTo(".", "provider/*")},
	{"openenvtest", upTo(".")},
	{"mcp", upTo(".", "envserver", "internal/tooljson")},
	{"internal/bridge", []string{".", "mcp"}},

	{"internal/ledger", []string{".", "envserver"}},
	{"internal/clientsuite", []string{".", "openenvtest", "internal/leak", "internal/testenv"}},
	{"envs/internal/*", []string{"…"}},
	{"envs/*", []string{"…", "envs/*"}}, // envs/catalog lists the others
	{"rollout/record", upTo(".")},
	{"rollout/stats", upTo(".", "rollout/record")},
	{"rollout", []string{"…"}},
	{"rollout/*", []string{"…", "rollout/*"}},

	{"internal/cli", []string{"…"}},
	{"internal/cli/*", []string{"…", "internal/cli/*"}},
	{"cmd/oenv", []string{"…"}},
	{"interop", []string{"…"}},
	{"bench", []string{"…"}},
	{"bench/*", []string{"…", "bench/*"}},
	{"examples/*", []string{"…"}},
}

// importers narrows the table: these packages have no other importers than the
// ones listed. Test files may import all of them.
var importers = map[string][]string{
	"internal/wsock": {"internal/session", ".", "envserver"},

	"internal/bridge": {"internal/cli"},

	// What is only there for tests stays out of programs.
	"envs/internal/envtest": nil,
	"internal/leak":         {"internal/clientsuite", "provider/providertest"},
	"internal/memnet":       {"openenvtest"},
	"internal/relay":        {"bench"},
	"internal/ledger":       {"bench"},
	"internal/testenv":      {"internal/peerproc", "internal/clientsuite", "internal/dockertest"},
	"internal/dockertest":   nil,
	"internal/peerproc":     nil,
	"internal/clientsuite":  nil,
}

// rootModules are the foreign modules that a program gets with package openenv.
var rootModules = []string{
	"github.com/coder/websocket",
	"github.com/go-json-experiment/json",
	"golang.org/x/net",
}

// upTo is the list of the layers up to the root, and more.
func upTo(more ...string) []string {
	return append([]string{
		"internal/wire", "internal/netx", "internal/proc", "internal/wsock", "internal/memnet",
		"provider", "internal/rpc", "internal/session",
	}, more...)
}

func TestLayers(t *testing.T) {
	for _, pkg := range readPackages(t) {
		row := rowOf(pkg.name)
		if row < 0 {
			t.Errorf("%s has no row in the table of layers", pkg.name)
			continue
		}
		for _, file := range pkg.files {
			for _, imported := range file.ours {
				if !file.test && !mayImport(row, pkg.name, imported) {
					t.Errorf("%s: %s may not import %s", file.path, pkg.name, imported)
				}
			}
		}
	}
}

// The table itself: what a list names must have a row above, or a list could
// turn the order round.
func TestLayersPointUp(t *testing.T) {
	for i, layer := range layers {
		for _, name := range layer.imports {
			if name == "…" || name == layer.pkg {
				continue
			}
			if above := rowOf(name); above < 0 || above >= i {
				t.Errorf("the row of %s lists %s, which has no row above it", layer.pkg, name)
			}
		}
	}
}

func TestMayImport(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     bool
	}{
		{".", "internal/session", true},
		{".", "internal/wsock", true},
		{".", "envserver", false},
		{"internal/session", ".", false},
		{"internal/wire", "internal/netx", false},
		{"envserver", ".", true},
		{"envserver", "internal/wsock", true},
		{"envserver", "mcp", false},
		{"mcp", "envserver", true},
		{"mcp", "internal/wsock", false},
		{"provider", ".", false},
		{"provider/docker", ".", true},
		{"provider/docker", "hub", false},
		{"openenvtest", "internal/memnet", true},
		{"envserver", "internal/memnet", false},
		{"envs/echo", "envserver", true},
		{"envs/echo", "internal/cli", false},
		{"internal/cli", "envs/echo", true},
		{"cmd/oenv", "internal/cli", true},
		{"cmd/oenv", "internal/leak", false},
	} {
		if got := mayImport(rowOf(tt.from), tt.from, tt.to); got != tt.want {
			t.Errorf("%s imports %s: allowed %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

// rowOf returns the index of the package's row, or -1.
func rowOf(name string) int {
	for i, layer := range layers {
		if matches(layer.pkg, name) {
			return i
		}
	}
	return -1
}

func matches(pattern, name string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/*"); ok {
		return pattern == name || strings.HasPrefix(name, dir+"/")
	}
	return pattern == name
}

func mayImport(row int, pkg, imported string) bool {
	if allowed, narrowed := importers[imported]; narrowed && !slices.Contains(allowed, pkg) {
		return false
	}
	for _, pattern := range layers[row].imports {
		if pattern == "…" {
			if above := rowOf(imported); above >= 0 && above < row {
				return true
			}
		} else if matches(pattern, imported) {
			return true
		}
	}
	return false
}

// A client's program is small: three modules, and what golang.org/x/net itself
// needs of golang.org/x/text.
func TestRootDependencies(t *testing.T) {
	const line = `{{if not .Standard}}{{.ImportPath}} {{with .Module}}{{.Path}}{{end}} {{join .Imports ","}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", line, ".")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, exitText(err))
	}
	allowed := append(slices.Clone(rootModules), "golang.org/x/text", module)
	found := map[string]bool{}
	for entry := range strings.Lines(string(out)) {
		fields := strings.Fields(entry)
		if len(fields) < 2 {
			continue // a package of the standard library
		}
		path, from := fields[0], fields[1]
		found[from] = true
		if !slices.Contains(allowed, from) {
			t.Errorf("the root package needs %s (module %s)", path, from)
		}
		if len(fields) < 3 || from == "golang.org/x/net" || from == "golang.org/x/text" {
			continue
		}
		for imported := range strings.SplitSeq(fields[2], ",") {
			if strings.HasPrefix(imported, "golang.org/x/text/") {
				t.Errorf("%s imports %s: only golang.org/x/net may", path, imported)
			}
		}
	}
	t.Logf("modules: %s", strings.Join(slices.Sorted(maps.Keys(found)), " "))
}
