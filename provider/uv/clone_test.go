package uv

import (
	"os"
	"slices"
	"testing"
)

// A clone that cannot be removed is kept in mind, and a later Stop removes it.
func TestFailedRemovalIsRetried(t *testing.T) {
	p := New("git+https://host/x")
	p.clone = "no such name\x00"
	for range 2 {
		if err := p.Stop(t.Context()); err == nil {
			t.Fatal("Stop has not failed")
		}
	}
	p.clone = t.TempDir()
	dir := p.clone
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil || p.clone != "" {
		t.Error("the clone was not removed")
	}
}

func TestGitEnvironment(t *testing.T) {
	src, err := parseSource("git+https://user:pass@host:1/x")
	if err != nil {
		t.Fatal(err)
	}
	const auth = "Authorization: Basic dXNlcjpwYXNz"
	for _, tt := range []struct {
		name              string
		env, with, absent []string
	}{
		{
			"usual",
			[]string{"A=b"},
			[]string{
				"A=b", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "GIT_SSH_COMMAND=ssh -o BatchMode=yes",
				"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.https://host:1/.extraHeader", "GIT_CONFIG_VALUE_0=" + auth,
			},
			nil,
		},
		{
			"settings of the caller's",
			[]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c", "GIT_SSH_COMMAND=mine"},
			[]string{"GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_1=" + auth, "GIT_CONFIG_COUNT=2", "GIT_SSH_COMMAND=mine"},
			[]string{"GIT_SSH_COMMAND=ssh -o BatchMode=yes"},
		},
		{"inside a hook", []string{"GIT_DIR=x", "GIT_INDEX_FILE=y"}, nil, []string{"GIT_DIR=x", "GIT_INDEX_FILE=y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := gitEnv(tt.env, src)
			for _, entry := range tt.with {
				if !slices.Contains(got, entry) {
					t.Errorf("%s is missing", entry)
				}
			}
			for _, entry := range tt.absent {
				if slices.Contains(got, entry) {
					t.Errorf("%s is there", entry)
				}
			}
			if got := src.String(); got != "git+https://host:1/x" {
				t.Errorf("shown as %s", got)
			}
		})
	}
}
