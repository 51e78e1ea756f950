package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
)

// Login is an account at a registry.
type Login struct{ Username, Password string }

// dockerHub is the name under which the docker command files the default registry.
const dockerHub = "https://index.docker.io/v1/"

// helperLimit bounds a credential helper, which may wait for a locked key store.
const helperLimit = 30 * time.Second

// config is the part of the docker command's configuration that concerns us.
type config struct {
	Auths map[string]struct {
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
		RegistryToken string `json:"registrytoken"`
	} `json:"auths"`
	Helpers map[string]string `json:"credHelpers"` //nolint:tagliatelle // its name in the file
	Store   string            `json:"credsStore"`  //nolint:tagliatelle // its name in the file
}

// Auth is the value of the registry header for img: the account given, else what the
// docker configuration has for the image's registry, else "". With an error the value
// is "" too, and a public image can still be pulled.
func (img Image) Auth(ctx context.Context) (string, error) {
	ref, err := reference.ParseNormalizedNamed(img.Ref)
	if err != nil {
		return "", nil //nolint:nilerr // an image id comes from no registry
	}
	server := reference.Domain(ref)
	if server == "docker.io" {
		server = dockerHub
	}
	if img.Login != nil {
		return authconfig.Encode(registry.AuthConfig{Username: img.Login.Username, Password: img.Login.Password, ServerAddress: server})
	}
	auth, err := configured(ctx, server)
	if err != nil {
		return "", fmt.Errorf("credentials for %s: %w", server, err)
	}
	if auth == nil {
		return "", nil
	}
	auth.ServerAddress = server
	return authconfig.Encode(*auth)
}

// configured looks an account up as the docker command does, nil for none.
func configured(ctx context.Context, server string) (*registry.AuthConfig, error) {
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, nil //nolint:nilnil,nilerr // no home, no configuration
		}
		dir = filepath.Join(home, ".docker")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no account is no error
	}
	if err != nil {
		return nil, err
	}
	var c config
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, errors.New("config.json is not valid JSON") // its text holds secrets
	}
	for name, helper := range c.Helpers {
		if hostOf(name) == hostOf(server) {
			return ask(ctx, helper, server)
		}
	}
	if c.Store != "" {
		if auth, err := ask(ctx, c.Store, server); auth != nil || err != nil {
			return auth, err
		}
	}
	for name, entry := range c.Auths {
		if hostOf(name) != hostOf(server) {
			continue
		}
		auth := &registry.AuthConfig{IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken}
		if entry.Auth == "" {
			return auth, nil
		}
		plain, err := base64.StdEncoding.DecodeString(entry.Auth)
		user, password, ok := strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
		if err != nil || !ok {
			return nil, errors.New("its entry in config.json is malformed")
		}
		auth.Username, auth.Password = user, password
		return auth, nil
	}
	return nil, nil //nolint:nilnil // no account is no error
}

// hostOf is the registry behind a name that may be a whole address.
func hostOf(name string) string {
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	}
	host, _, _ := strings.Cut(name, "/")
	return host
}

// ask runs a credential helper, a program of the user's choice beside the engine.
func ask(ctx context.Context, helper, server string) (*registry.AuthConfig, error) {
	program := "docker-credential-" + helper
	if strings.ContainsAny(helper, `/\`) {
		return nil, fmt.Errorf("credential helper %q is not a plain name", helper)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helperLimit, fmt.Errorf("no answer within %v", helperLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.Stdin = strings.NewReader(server)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", program, context.Cause(ctx))
	}
	if err != nil {
		// The helpers say so on standard output and exit with 1.
		if bytes.Contains(out, []byte("credentials not found")) {
			return nil, nil //nolint:nilnil // no account is no error
		}
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	var answer struct {
		Username string `json:"Username"` //nolint:tagliatelle // the helpers' name
		Secret   string `json:"Secret"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, fmt.Errorf("%s: answer is not valid JSON", program)
	}
	if answer.Username == "<token>" {
		return &registry.AuthConfig{IdentityToken: answer.Secret}, nil
	}
	return &registry.AuthConfig{Username: answer.Username, Password: answer.Secret}, nil
}
