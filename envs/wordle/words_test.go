package wordle

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	if len(words) < 500 {
		t.Errorf("only %d words", len(words))
	}
	form := regexp.MustCompile(`^[a-z]{5}$`)
	for _, w := range words {
		if !form.MatchString(w) {
			t.Errorf("word %q", w)
		}
	}
	if !slices.IsSorted(words) || len(slices.Compact(slices.Clone(words))) != len(words) {
		t.Error("the list is not sorted, or has a word twice")
	}
}

func TestCompare(t *testing.T) {
	for _, tt := range []struct{ name, guess, secret, want string }{
		{"the secret", "crane", "crane", "ccccc"},
		{"nothing", "blimp", "crane", "-----"},
		{"moved", "ncrae", "crane", "ppppc"},
		{"two guessed, one there", "speed", "crepe", "-pcp-"},
		{"two guessed, one placed", "allot", "later", "pp--p"},
		{"placed before moved", "eerie", "there", "p-p-c"},
		{"the placed one is the only one", "geese", "those", "---cc"},
		{"left one first", "llama", "hello", "pp---"},
		{"three of a letter", "mamma", "magma", "cc-cc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var short strings.Builder
			for _, f := range compare(tt.guess, tt.secret) {
				short.WriteString(map[string]string{correct: "c", present: "p", absent: "-"}[f])
			}
			if short.String() != tt.want {
				t.Errorf("%s for %s: %s, want %s", tt.guess, tt.secret, short.String(), tt.want)
			}
		})
	}
}

// WithSecret returns env with a secret of the test's choice.
func (e *Env) WithSecret(secret string) *Env {
	e.secret = secret
	return e
}
