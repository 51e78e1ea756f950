package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestChoose(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1") // where no image is
	t.Chdir(t.TempDir())
	for _, dir := range []string{"project", "org/project", "plain", "org/plain"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(dir) == "project" {
			if err := os.WriteFile(filepath.Join(dir, "pyproject.toml"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct{ provider, text, want string }{
		{"", "echo", byDocker},
		{"", "echo:1.2", byDocker},
		{"", "registry.example.com/echo", byDocker},
		{"", "localhost/echo", byDocker},
		{"", "localhost:5000/echo", byDocker},
		{"", "org/team/echo", byDocker},
		{"", "org/echo:1.2", byDocker},
		{"", "org/echo@sha256:0123456789012345678901234567890123456789012345678901234567890123", byDocker},
		{"", "plain", byDocker}, // a directory that is no project
		{"", "org/echo", byHub},
		{"", "org/plain", byHub},
		{"", "org/project", byUV},
		{"", "project", byUV},
		{"", "./project", byUV},
		{"", "git+https://example.com/org/x", byUV},
		{"", "git+file:///x", byUV},
		{"docker", "org/echo", byDocker},
		{"docker", "project", byDocker},
		{"swarm", "org/echo", bySwarm},
		{"hub", "org/project", byHub},
		{"uv", "org/echo", byUV},
		{"uv", "plain", byUV}, // and says what it lacks
	} {
		o := &runOptions{provider: tt.provider}
		got, err := o.choose(t.Context(), []string{tt.text}, -1)
		if err != nil || got.kind != tt.want {
			t.Errorf("--provider %q %s: %+v, %v, want %s", tt.provider, tt.text, got, err, tt.want)
		}
	}
}

func TestShownSource(t *testing.T) {
	for text, want := range map[string]string{
		"org/echo":                               "org/echo",
		"git+https://example.com/x@v1":           "git+https://example.com/x@v1",
		"git+https://token@example.com/x@v1#a=b": "git+https://example.com/x@v1#a=b",
		"git+https://u:p@example.com/x":          "git+https://example.com/x",
		"git+https://u:p@q@example.com/x":        "git+https://example.com/x",
		"git+https://u:%zz@example.com/x":        "git+https://…",
		"git+ssh://git@example.com/x":            "git+ssh://git@example.com/x",
		"a\x1b[2Jb":                              "a?[2Jb",
	} {
		if got := shownSource(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestSplitVolume(t *testing.T) {
	for text, want := range map[string]volume{
		"/a:/b":         {"/a", "/b", ""},
		"name:/b:ro":    {"name", "/b", "ro"},
		`C:\data:/b`:    {`C:\data`, "/b", ""},
		`C:\data:/b:ro`: {`C:\data`, "/b", "ro"},
		"/a:/b:ro,z":    {"/a", "/b", "ro,z"},
	} {
		if got, ok := splitVolume(text); !ok || got != want {
			t.Errorf("%s: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "/a", ":/b", "/a:"} {
		if got, ok := splitVolume(text); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestSpaceRepository(t *testing.T) {
	space, _ := spaceShape("org/echo")
	for _, tt := range []struct{ endpoint, token, variable, want string }{
		{"", "", "", "git+https://huggingface.co/spaces/org/echo"},
		{"", "", "t0", "git+https://oenv:t0@huggingface.co/spaces/org/echo"},
		{"https://hub.example.com/", "t1", "t0", "git+https://oenv:t1@hub.example.com/spaces/org/echo"},
		{"http://localhost:1", "", "", "git+http://localhost:1/spaces/org/echo"},
		{"http://localhost:1", "t1", "", ""},
		{"%zz", "", "", ""},
	} {
		t.Setenv("HF_ENDPOINT", tt.endpoint)
		t.Setenv("HF_TOKEN", tt.variable)
		s := &runSettings{runOptions: &runOptions{token: tt.token}}
		if got, err := s.repository(space); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%+v: %s, %v", tt, got, err)
		}
	}
}
