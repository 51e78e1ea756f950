//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/dockertest"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
)

// ownEngine stands before the tests' engine and gives this test a label of its own:
// the tests of other packages, which share the engine, prune what they find.
func ownEngine(t *testing.T) {
	t.Helper()
	host := dockertest.Engine(t)
	path, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		testenv.Require(t, "an engine behind a socket", fmt.Errorf("there is one at %s", host))
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
	const label = "openenv-go.provider"
	own := fmt.Sprintf("openenv-test.%d.%s", os.Getpid(), strings.ToLower(t.Name()))
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // logs
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "engine"})
			r.Out.URL.RawQuery = strings.ReplaceAll(r.Out.URL.RawQuery, label, own)
			if strings.HasSuffix(r.In.URL.Path, "/create") {
				body, _ := io.ReadAll(r.In.Body)
				body = bytes.ReplaceAll(body, []byte(label), []byte(own))
				r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		transport.CloseIdleConnections()
	})
	t.Setenv("DOCKER_HOST", fmt.Sprint("tcp://", s.Listener.Addr()))
}

// oenv runs the command to its end.
func oenv(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := oenvCommand(t, nil, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its exit code is in cmd.ProcessState
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("oenv %s: exit code %d, want %d; it wrote %s", strings.Join(args, " "), got, code, errs.Bytes())
	}
	return out.String(), errs.String()
}

// listed is what oenv ps says.
func listed(t *testing.T) (all []resource) {
	t.Helper()
	out, _ := oenv(t, 0, "ps", "--json")
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var r resource
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		all = append(all, r)
	}
	return all
}

func TestRunImage(t *testing.T) {
	leak.Check(t)
	image := dockertest.Image(t, "EXPOSE 7860", "ENV PORT=7860")
	ownEngine(t)
	s := startRun(t, nil, "--json", "--memory", "64m", "--cpus", "0.5", "--pull", "never", "--volume", "/:/machine:ro", image)
	answering(t, s.url)
	var ready runReady
	if err := json.Unmarshal([]byte(s.line), &ready); err != nil || ready.Source != image || ready.Provider != "docker" || ready.URL != s.url {
		t.Errorf("it printed %q", s.line)
	}
	c, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	box, err := c.ContainerInspect(t.Context(), ready.Name, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if set := box.Container.HostConfig; set.Memory != 64<<20 || set.NanoCPUs != 5e8 || len(set.Binds) != 1 || set.Binds[0] != "/:/machine:ro" {
		t.Errorf("memory %d, processors %d, volumes %v", set.Memory, set.NanoCPUs, set.Binds)
	}
	all := listed(t)
	if len(all) != 1 || all[0].Name != ready.Name || all[0].URL != s.url || all[0].Image != image || all[0].Owner.PID != s.cmd.Process.Pid || all[0].Owner.State != ownerAlive {
		t.Errorf("ps: %+v", all)
	}
	if out, _ := oenv(t, 0, "prune"); out != "nothing to remove\n" {
		t.Errorf("prune of what is in use: %s", out)
	}
	if _, text := oenv(t, 2, "prune", "--older-than", "1ns"); !strings.HasPrefix(text, "oenv: prune: "+ready.Name+": the owner is alive: --yes ") {
		t.Errorf("prune of what is in use: %s", text)
	}
	send(t, s, os.Interrupt)
	endsWith(t, s, 0)
	if want := "serving on port 7860\nstopping\n"; s.stderr.String() != want {
		t.Errorf("its log is %q, want %q", s.stderr.String(), want)
	}
	if all := listed(t); len(all) > 0 {
		t.Errorf("left: %+v", all)
	}
}

func TestRunImageFails(t *testing.T) {
	leak.Check(t)
	image := dockertest.Image(t)
	ownEngine(t)
	out, text := oenv(t, 3, "run", "--quiet", "--env", "FAULT=die", image)
	if rest, ok := strings.CutPrefix(text, "oenv: run: "); out != "" || !ok || !strings.HasSuffix(rest, " exited with status 3 before it was ready; its output ended with:\n  server: the model file is missing\n") {
		t.Errorf("dead at once: %q, %q", out, text)
	}
	if _, text = oenv(t, 3, "run", "--pull", "never", "openenv-test/none:1"); !strings.Contains(text, "the pull policy is never") || strings.Count(text, "\n") != 1 {
		t.Errorf("no image: %q", text)
	}

	s := startRun(t, nil, "--quiet", "--env", "FAULT=die:1500ms", image)
	endsWith(t, s, 1)
	if text := s.stderr.String(); !strings.HasPrefix(text, "oenv: run: container openenv-echo-") || !strings.HasSuffix(text, " of "+image+" exited with status 3; its output ended with:\n  serving on port 8000\n  server: out of memory, so to speak\n") {
		t.Errorf("dead later: %q", text)
	}
	if all := listed(t); len(all) > 0 {
		t.Errorf("left: %+v", all)
	}
}

// An image that is there under the name of a Space is what runs; nobody is left to
// remove it but prune.
func TestPruneAfterRunWasKilled(t *testing.T) {
	leak.Check(t)
	image := dockertest.Image(t, "EXPOSE 8000")
	c := dockertest.Connect(t)
	space := fmt.Sprintf("openenv-test/echo%d", os.Getpid())
	if _, err := c.ImageTag(t.Context(), client.ImageTagOptions{Source: image, Target: space}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.ImageRemove(context.WithoutCancel(t.Context()), space, client.ImageRemoveOptions{}) })
	ownEngine(t)
	s := startRun(t, nil, space)
	if want := "running " + space + " by docker at " + s.url + "\n"; s.line != want {
		t.Errorf("it printed %q, want %q", s.line, want)
	}
	s.kill()
	answering(t, s.url)
	all := listed(t)
	if len(all) != 1 || all[0].URL != s.url || all[0].Owner.State != ownerGone || all[0].Owner.PID != s.cmd.Process.Pid {
		t.Fatalf("ps: %+v", all)
	}
	if out, _ := oenv(t, 0, "ps"); !strings.HasPrefix(out, "NAME ") || !strings.Contains(out, all[0].Name+"  "+space+"  "+s.url+"  running  ") || !strings.HasSuffix(out, ", gone\n") {
		t.Errorf("ps: %s", out)
	}
	what := "container " + all[0].Name + " of " + space + ", "
	if out, _ := oenv(t, 0, "prune", "--dry-run"); !strings.HasPrefix(out, "would remove "+what) || strings.Count(out, "\n") != 1 {
		t.Errorf("prune --dry-run: %q", out)
	}
	answering(t, s.url)
	if out, _ := oenv(t, 0, "prune"); !strings.HasPrefix(out, "removed "+what) || strings.Count(out, "\n") != 1 {
		t.Errorf("prune: %q", out)
	}
	closed(t, s.url)
	if all := listed(t); len(all) > 0 {
		t.Errorf("left: %+v", all)
	}
}

// A Space's image is pulled, which a terminal shows.
func TestRunSpaceOnATerminal(t *testing.T) {
	leak.Check(t)
	image := dockertest.Image(t, "EXPOSE 8000")
	registry := dockertest.Registry(t, false)
	dockertest.Push(t, image, registry, "org-echo:latest")
	ownEngine(t)
	s := startScreen(t, []string{"DOCKER_HOST=" + os.Getenv("DOCKER_HOST")}, "run", "org/echo", "--registry", registry)
	s.expect("pulling org/echo: ")
	s.expect("running org/echo by hub at http://127.0.0.1:")
	s.send("\x03")
	s.expect("oenv: ending; once more to end at once")
	s.ends(0)
}
