package testenv

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Recorded reads one of the exchanges that were recorded with the Python package, a T
// for each line. A file that is missing, empty or malformed ends the test.
func Recorded[T any](t testing.TB, file string) []T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), "internal", "wire", "testdata", "recorded", file))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for line := range bytes.Lines(text) {
		var exchange T
		if err := json.Unmarshal(line, &exchange); err != nil {
			t.Fatalf("%s: %s: %v", file, line, err)
		}
		all = append(all, exchange)
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", file)
	}
	return all
}
