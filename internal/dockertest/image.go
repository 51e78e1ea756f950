package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/testenv"
)

// server is the program of the images, once it is built; the lock on them guards it.
var server []byte

// Image is an image with the server of testdata/server in it and further lines of a
// Dockerfile, such as "EXPOSE 7860". It is built from scratch: nothing is pulled. Its
// tag is a digest, so that packages and runs share what is equal.
func Image(t testing.TB, lines ...string) string {
	t.Helper()
	c := Connect(t)
	unlock, err := lock(found.dir, "images", exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if server == nil {
		server = buildServer(t) // once a package: linking takes a second
	}
	dockerfile := "FROM scratch\nCOPY server /server\nENTRYPOINT [\"/server\"]\nLABEL " + imageLabel + "=1\n" + strings.Join(lines, "\n") + "\n"
	sum := sha256.Sum256(append([]byte(dockerfile), server...))
	name := fmt.Sprintf("openenv-test/echo:%x", sum[:8])
	if _, err := c.ImageInspect(t.Context(), name); err == nil {
		return name
	}
	if err := build(t.Context(), c, name, dockerfile, server); err != nil {
		t.Fatalf("build an image: %v", err)
	}
	return name
}

func buildServer(t testing.TB) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "server")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./internal/dockertest/testdata/server")
	cmd.Dir = testenv.Root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, text)
	}
	program, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func build(ctx context.Context, c *client.Client, name, dockerfile string, server []byte) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		mode int64
		body []byte
	}{{"Dockerfile", 0o644, []byte(dockerfile)}, {"server", 0o755, server}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body))}); err != nil {
			return err
		}
		if _, err := w.Write(f.body); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	res, err := c.ImageBuild(ctx, &archive, client.ImageBuildOptions{Tags: []string{name}, Remove: true, ForceRemove: true})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for dec := json.NewDecoder(res.Body); ; {
		var m struct {
			Error string `json:"error"`
		}
		switch err := dec.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
	}
}

// removeImages removes what Image has built, from an engine that is not ours.
func removeImages(host string) {
	c, err := client.New(client.FromEnv, client.WithHost(host))
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	images, err := c.ImageList(context.Background(), client.ImageListOptions{Filters: make(client.Filters).Add("label", imageLabel+"=1")})
	if err != nil {
		return
	}
	for _, i := range images.Items {
		_, _ = c.ImageRemove(context.Background(), i.ID, client.ImageRemoveOptions{Force: true, PruneChildren: true})
	}
}
