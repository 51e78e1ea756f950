package dockertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/testenv"
)

// The account of a registry that wants one.
const (
	RegistryUser     = "somebody"
	RegistryPassword = "s3cret-Passw0rd"
	// registryHash is RegistryPassword as bcrypt has it.
	registryHash = "$2a$05$5Dzz1yFMBoZClr6aCu5Cr.VBJdmiTlzbRd98d5GirVJHtBGjdNxGe"
)

// Registry starts a registry on loopback and returns its host and port, which an
// engine on the same machine takes without TLS. With account set it asks for
// RegistryUser. It ends with the test.
func Registry(t testing.TB, account bool) string {
	t.Helper()
	host := Engine(t)
	if !strings.HasPrefix(host, "unix://") {
		testenv.Require(t, "a registry the engine can reach", fmt.Errorf("the engine at %s is on another machine", host))
	}
	_, err := exec.LookPath("docker-registry")
	if err != nil {
		err = fmt.Errorf("%w: run `make engine`", err)
	}
	testenv.Require(t, "docker-registry", err)
	dir := t.TempDir()
	address := freeAddress(t)
	conf := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n", dir, address)
	if account {
		file := filepath.Join(dir, "htpasswd")
		write(t, file, RegistryUser+":"+registryHash+"\n")
		conf += fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}\n", file)
	}
	file := filepath.Join(dir, "config.yml")
	write(t, file, conf)
	// The shell ends the registry when its input does: when the test ends, or is killed.
	cmd := exec.Command("sh", "-c", `docker-registry serve "$1" >"$2" 2>&1 & read -r _; kill $!; wait`, "registry", file, filepath.Join(dir, "log"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	awaitRegistry(t, address, filepath.Join(dir, "log"))
	return address
}

func awaitRegistry(t testing.TB, address, log string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := c.Get("http://" + address + "/v2/")
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log)
			t.Fatalf("the registry does not start: %v\n%s", err, text)
		}
	}
}

// Push puts image into the registry as name:tag and returns its full name there. The
// engine keeps no copy under it, so that the next use has to pull.
func Push(t testing.TB, image, address, name string) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	c := Connect(t)
	full := address + "/" + name
	if _, err := c.ImageTag(ctx, client.ImageTagOptions{Source: image, Target: full}); err != nil {
		t.Fatal(err)
	}
	auth, err := authconfig.Encode(registry.AuthConfig{Username: RegistryUser, Password: RegistryPassword})
	if err != nil {
		t.Fatal(err)
	}
	push, err := c.ImagePush(ctx, full, client.ImagePushOptions{RegistryAuth: auth})
	if err != nil {
		t.Fatal(err)
	}
	if err := push.Wait(ctx); err != nil {
		t.Fatalf("push %s: %v", full, err)
	}
	Forget(t, full)
	t.Cleanup(func() { _, _ = c.ImageRemove(ctx, full, client.ImageRemoveOptions{}) })
	return full
}

// Forget removes a name of an image from the engine.
func Forget(t testing.TB, name string) {
	t.Helper()
	if _, err := Connect(t).ImageRemove(t.Context(), name, client.ImageRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
