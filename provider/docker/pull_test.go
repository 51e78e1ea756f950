package docker_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/dockertest"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider/docker"
)

func TestPull(t *testing.T) {
	leak.Check(t)
	registry := dockertest.Registry(t, false)
	image := dockertest.Push(t, dockertest.Image(t), registry, "team/echo:v1")
	_, err := newProvider(t, image, docker.WithPull(docker.PullNever)).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the pull policy is never") {
		t.Errorf("Start = %v", err)
	}
	var lines []docker.Progress
	progress := docker.WithProgress(func(p docker.Progress) { lines = append(lines, p) })
	for _, tt := range []struct {
		policy docker.Pull
		pulls  bool
	}{{docker.PullMissing, true}, {docker.PullMissing, false}, {docker.PullAlways, true}, {docker.PullNever, false}} {
		lines = nil
		p := newProvider(t, image, docker.WithPull(tt.policy), progress, quick)
		if _, err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantReady(t, p)
		if (len(lines) > 0) != tt.pulls {
			t.Errorf("policy %v: progress %v, want a pull %v", tt.policy, lines, tt.pulls)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err = newProvider(t, registry+"/team/none:v1").Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "pull "+registry+"/team/none:v1") || !strings.Contains(err.Error(), "not found") && !strings.Contains(err.Error(), "unknown") {
		t.Errorf("Start of an image that is nowhere = %v", err)
	}
}

func TestPullWithAccount(t *testing.T) {
	leak.Check(t)
	registry := dockertest.Registry(t, true)
	image := dockertest.Push(t, dockertest.Image(t), registry, "private/echo:v1")
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	config := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	helper := filepath.Join(dir, "docker-credential-test")
	script := "#!/bin/sh\nread -r server\n[ \"$server\" = " + registry + " ] || exit 1\necho '{\"Username\":\"" + dockertest.RegistryUser + "\",\"Secret\":\"" + dockertest.RegistryPassword + "\"}'\n"
	if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	account := base64.StdEncoding.EncodeToString([]byte(dockertest.RegistryUser + ":" + dockertest.RegistryPassword))
	for _, tt := range []struct {
		name, config string
		opts         []docker.Option
		want         string // of the error
	}{
		{"none", "", nil, "no basic auth credentials"},
		{"wrong", "", []docker.Option{docker.WithLogin(dockertest.RegistryUser, "wr0ng-Passw0rd")}, "nauthorized"},
		{"option", "", []docker.Option{docker.WithLogin(dockertest.RegistryUser, dockertest.RegistryPassword)}, ""},
		{"configuration", `{"auths":{"http://` + registry + `/v1/":{"auth":"` + account + `"}}}`, nil, ""},
		{"helper of the registry", `{"credHelpers":{"` + registry + `":"test"}}`, nil, ""},
		{"helper for all", `{"credsStore":"test"}`, nil, ""},
		{"helper that is missing", `{"credsStore":"nowhere"}`, nil, "docker-credential-nowhere"},
		{"malformed entry", `{"auths":{"` + registry + `":{"auth":"s3cret"}}}`, nil, "malformed"},
		{"malformed file", `{"s3cret`, nil, "not valid JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config(tt.config)
			if tt.config == "" {
				config("{}")
			}
			p := newProvider(t, image, append(tt.opts, quick)...)
			_, err := p.Start(t.Context())
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				dockertest.Forget(t, image)
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "Passw0rd") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("Start = %v, want %q and no secret", err, tt.want)
			}
		})
	}
}
