package openenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A page that says which test proves what must not outlive the test.
func TestDocsNameExistingTests(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "grep", "-rhoE", "--include=*_test.go", `^func (Test|Example|Fuzz|Benchmark)[A-Za-z0-9_]+`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	exists := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		exists[strings.TrimPrefix(strings.TrimSpace(line), "func ")] = true
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	name := regexp.MustCompile("`(Test|Fuzz)[A-Za-z0-9_]+`")
	for _, page := range append(pages, "ARCHITECTURE.md", "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, quoted := range name.FindAllString(string(text), -1) {
			if test := strings.Trim(quoted, "`"); !exists[test] {
				t.Errorf("%s names %s, which does not exist", page, test)
			}
		}
	}
}
