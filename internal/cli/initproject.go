package cli

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

const (
	modulePath = "github.com/openenv-go/openenv"
	// goVersion is the one of this module's go.mod, below which no module that requires
	// it may be; a test compares them.
	goVersion = "1.26.8"
)

// initial holds the files of a new environment. They are no Go files, so that the go
// command leaves them alone.
//
//go:embed initial
var initial embed.FS

// initialFiles are the templates in the order in which one reads what they become.
var initialFiles = []struct{ name, template string }{
	{"README.md", "README.md"},
	{"env.go", "env.go"},
	{"env_test.go", "env_test.go"},
	{"server/main.go", "server/main.go"},
	{"go.mod", "go.mod"},
	{"Makefile", "Makefile"},
	{"Dockerfile", "Dockerfile"},
	{"openenv.yaml", "openenv.yaml"},
	{".dockerignore", "dockerignore"},
	{".gitignore", "gitignore"},
}

// project is what the templates are filled with.
type project struct {
	Name    string // of the environment
	Package string // of its Go package
	Module  string
	Library string // this module
	Version string // of the library; empty when there is none to require
	Replace string // folder to use instead, quoted for go.mod; may be empty
	Go      string // version of the language
}

type file struct {
	name    string // slash-separated
	content []byte
}

func (p *project) render() ([]file, error) {
	files := make([]file, 0, len(initialFiles))
	for _, f := range initialFiles {
		content, err := p.fill("initial/" + f.template + ".tmpl")
		if err != nil {
			return nil, fmt.Errorf("init: %s: %w", f.name, err)
		}
		if path.Ext(f.name) == ".go" {
			if content, err = format.Source(content); err != nil {
				return nil, fmt.Errorf("init: %s: %w", f.name, err)
			}
		}
		files = append(files, file{f.name, content})
	}
	return files, nil
}

func (p *project) fill(name string) ([]byte, error) {
	text, err := initial.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t, err := template.New(name).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, p)
	return b.Bytes(), err
}

// next tells what to type now.
func (p *project) next(dir string) string {
	var b strings.Builder
	if p.Version == "" {
		fmt.Fprintf(&b, "oenv: this is a development build, so go.mod requires no version of %s: "+
			"first run \"go get %[1]s@latest\", or init again with --force --replace CHECKOUT\n", modulePath)
	}
	b.WriteString("next:\n")
	if path.Clean(dir) != "." {
		fmt.Fprintf(&b, "  cd %s\n", shellQuote(dir))
	}
	b.WriteString("  go mod tidy\n  go test ./...\n  go run ./server\n")
	return b.String()
}

// A name is fit for a Go package, a folder, an image and a YAML file all at once.
var namePattern = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

const longestName = 64

func checkName(name string) error {
	if !namePattern.MatchString(name) || len(name) > longestName {
		return fmt.Errorf("name %q is not made of lower-case letters and digits, with single - or _ between them, beginning with a letter, at most %d characters", clip(name), longestName)
	}
	switch pkg := packageName(name); {
	case token.IsKeyword(pkg):
		return fmt.Errorf("name %q is a word of the Go language", name)
	case pkg == "main" || pkg == "documentation":
		return fmt.Errorf("name %q has a meaning of its own as a Go package", name)
	}
	return nil
}

func packageName(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(name)
}

var moduleElement = regexp.MustCompile(`^[A-Za-z0-9_~-]+(\.+[A-Za-z0-9_~-]+)*$`)

// standard are the first words of the import paths that belong to Go itself. A module
// of that name could not be imported.
var standard = strings.Fields(`all archive bufio builtin bytes cmd cmp compress container context crypto
	database debug embed encoding errors expvar flag fmt go hash html image index internal io iter log main
	maps math mime net os path plugin reflect regexp runtime slices sort std strconv strings structs sync
	syscall testing text time toolchain unicode unique unsafe vendor weak`)

func checkModule(module string) error {
	elements := strings.Split(module, "/")
	for _, e := range elements {
		if !moduleElement.MatchString(e) {
			return fmt.Errorf("module path %q is not made of letters, digits and -._~ between slashes", clip(module))
		}
	}
	if slices.Contains(standard, elements[0]) {
		return fmt.Errorf("module path %q belongs to Go's own packages", module)
	}
	if module == modulePath || strings.HasPrefix(module, modulePath+"/") {
		return fmt.Errorf("module path %q belongs to the library", module)
	}
	return nil
}

// quotePath quotes a path for go.mod where that is needed.
func quotePath(p string) string {
	if p == "" || strings.ContainsAny(p, " \t\"'`(),[]{}") || strings.Contains(p, "//") {
		return strconv.Quote(p)
	}
	return p
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./\\-]+$`)

// shellQuote makes text one word of a shell's line.
func shellQuote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
