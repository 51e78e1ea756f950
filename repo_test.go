package openenv_test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxLines is the length of a file that still tells one story.
const maxLines = 400

// goPackage is one folder of Go files, test files and those for other systems
// included.
type goPackage struct {
	name  string // relative to the module, "." for the root
	files []goFile
}

type goFile struct {
	path  string
	test  bool
	doc   bool // has a package comment
	lines int
	ours  []string // imports of this module, relative to it
}

func TestFileLength(t *testing.T) {
	for _, pkg := range readPackages(t) {
		for _, file := range pkg.files {
			if !file.test && file.lines > maxLines {
				t.Errorf("%s has %d lines, more than %d", file.path, file.lines, maxLines)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, pkg := range readPackages(t) {
		// A package of tests alone says in a test file what they are about.
		onlyTests := !slices.ContainsFunc(pkg.files, func(f goFile) bool { return !f.test })
		if !slices.ContainsFunc(pkg.files, func(f goFile) bool { return f.doc && f.test == onlyTests }) {
			t.Errorf("%s has no package comment", pkg.name)
		}
	}
}

// The repository stands alone: nothing in it points to where it was written.
func TestNoForeignPaths(t *testing.T) {
	// Spelled in two parts, so that this file does not contain them.
	banned := []string{"../" + "shared", "/" + "work/", "/tmp/" + "w/", "/" + "root/"}
	walk(t, func(name string) {
		content, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(content, 0) >= 0 {
			return // not a text
		}
		for number, line := range slices.Collect(bytes.Lines(content)) {
			for _, words := range banned {
				if bytes.Contains(line, []byte(words)) {
					t.Errorf("%s:%d contains %q", name, number+1, words)
				}
			}
		}
	})
}

// readPackages parses every Go file of the module, whatever its build
// constraints say; nested modules are not part of it.
func readPackages(t *testing.T) []*goPackage {
	t.Helper()
	var packages []*goPackage
	byName := map[string]*goPackage{}
	walk(t, func(name string) {
		if path.Ext(name) != ".go" || slices.Contains(strings.Split(name, "/"), "testdata") {
			return
		}
		dir := path.Dir(name)
		pkg, ok := byName[dir]
		if !ok {
			pkg = &goPackage{name: dir}
			byName[dir] = pkg
			packages = append(packages, pkg)
		}
		pkg.files = append(pkg.files, readFile(t, name))
	})
	return packages
}

func readFile(t *testing.T, name string) goFile {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return goFile{
		path:  name,
		test:  strings.HasSuffix(name, "_test.go"),
		doc:   parsed.Doc != nil && strings.TrimSpace(parsed.Doc.Text()) != "",
		lines: bytes.Count(content, []byte("\n")),
		ours:  ourImports(t, parsed),
	}
}

func ourImports(t *testing.T, file *ast.File) []string {
	t.Helper()
	var ours []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if imported == module {
			ours = append(ours, ".")
		} else if rest, ok := strings.CutPrefix(imported, module+"/"); ok {
			ours = append(ours, rest)
		}
	}
	return ours
}

// walk calls visit with the slash-separated name of each file that belongs to
// the module: not those that the targets of the Makefile make.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			if entry.Type().IsRegular() && !strings.HasPrefix(name, "coverage.") {
				visit(filepath.ToSlash(name))
			}
			return nil
		case name == ".":
			return nil
		case slices.Contains([]string{".git", "node_modules", ".peer", "bin", "__pycache__"}, entry.Name()):
			return fs.SkipDir
		}
		_, err = os.Stat(filepath.Join(name, "go.mod"))
		if err == nil {
			return fs.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exitText is what a command that failed wrote to standard error.
func exitText(err error) []byte {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.Stderr
	}
	return nil
}
