package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/pkg/authconfig"
)

func TestOwner(t *testing.T) {
	self := Self()
	if ParseOwner(self.String()) != self || self.Dead() {
		t.Fatalf("this process, %s, is read as %+v, dead %v", self, ParseOwner(self.String()), self.Dead())
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	zombie := startTime(pid)
	for deadline := time.Now().Add(30 * time.Second); zombie != "" && time.Now().Before(deadline); zombie = startTime(pid) {
		time.Sleep(10 * time.Millisecond)
	}
	change := func(f func(*Owner)) Owner { o := self; f(&o); return o }
	for _, tt := range []struct {
		name string
		o    Owner
		want bool
	}{
		{"nothing known", Owner{}, false},
		{"not an owner", ParseOwner("what?"), false},
		{"another host", change(func(o *Owner) { o.Host += "-2"; o.PID = 1 << 29 }), false},
		{"another machine", change(func(o *Owner) { o.Machine += "0"; o.PID = 1 << 29 }), false},
		{"another container", change(func(o *Owner) { o.Space = "pid:[1]"; o.PID = 1 << 29 }), false},
		{"before a restart of the machine", change(func(o *Owner) { o.Boot = "another" }), true},
		{"no such process", change(func(o *Owner) { o.PID = 1 << 29 }), true},
		{"its number taken by another", change(func(o *Owner) { o.Start = "1" }), true},
		{"killed and not waited for", change(func(o *Owner) { o.PID, o.Start = pid, "12345" }), true},
	} {
		if got := tt.o.Dead(); got != tt.want {
			t.Errorf("%s: dead %v, want %v", tt.name, got, tt.want)
		}
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTail(t *testing.T) {
	frame := func(stream byte, text string) string {
		return string([]byte{stream, 0, 0, 0, 0, 0, byte(len(text) >> 8), byte(len(text))}) + text
	}
	for _, tt := range []struct{ name, log, want string }{
		{"empty", "", ""},
		{"both streams in order", frame(1, "a\n") + frame(2, "b\n") + frame(1, "c\n"), "a\nb\nc"},
		{"cut off", frame(1, "a\n") + frame(1, "bcd")[:9], "a\nb"},
		{"control characters", frame(1, "\x1b[31mred\a\x00\n"), "[31mred"},
		{"half a character", frame(1, "a\xc3"), "a"},
		{"long", frame(1, strings.Repeat("x", tailBytes)) + frame(2, "end"), strings.Repeat("x", tailBytes-3) + "end"},
	} {
		if got := tail(bytes.NewBufferString(tt.log)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestSplitVolume(t *testing.T) {
	for _, tt := range []struct {
		in       string
		bind, ro bool
		ok       bool
	}{
		{"/a:/b", true, false, true},
		{"/a:/b:ro", true, true, true},
		{"name:/b:ro,z", false, true, true},
		{`C:\data:/b`, true, false, true},
		{"C:/data:/b:ro", true, true, true},
		{"/a", false, false, false},
		{"/a:/b:ro:x", false, false, false},
		{"x:/b", false, false, false}, // a volume's name has two letters
	} {
		v, err := SplitVolume(tt.in)
		if (err == nil) != tt.ok || tt.ok && (v.Bind() != tt.bind || v.ReadOnly() != tt.ro || v.String() != tt.in) {
			t.Errorf("%s: %+v, %v", tt.in, v, err)
		}
	}
}

// The default registry is filed under an address of its own.
func TestAuth(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	entry := base64.StdEncoding.EncodeToString([]byte("somebody:with:colons"))
	config := `{"auths":{"https://index.docker.io/v1/":{"auth":"` + entry + `"},"registry.example.com":{"identitytoken":"t0ken"}}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ image, user, password, token string }{
		{"echo", "somebody", "with:colons", ""},
		{"docker.io/org/echo:1", "somebody", "with:colons", ""},
		{"registry.example.com/echo", "", "", "t0ken"},
		{"registry.example.com:5000/echo", "", "", ""},
	} {
		header, err := Image{Ref: tt.image}.Auth(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got, err := authconfig.Decode(header)
		if err != nil || got.Username != tt.user || got.Password != tt.password || got.IdentityToken != tt.token {
			t.Errorf("%s: %+v, %v", tt.image, got, err)
		}
	}
}

func TestPort(t *testing.T) {
	for _, tt := range []struct {
		name    string
		exposed []string
		asked   uint16
		want    string // "" for an error
	}{
		{"none", nil, 0, "8000/tcp"},
		{"none and a choice", nil, 4321, "4321/tcp"},
		{"one", []string{"7860/tcp"}, 0, "7860/tcp"},
		{"one without a protocol", []string{"7860"}, 0, "7860/tcp"},
		{"one twice", []string{"7860", "7860/tcp"}, 0, "7860/tcp"},
		{"one and a choice", []string{"7860/tcp"}, 8000, "8000/tcp"},
		{"one of TCP", []string{"53/udp", "7860/tcp"}, 0, "7860/tcp"},
		{"none of TCP", []string{"53/udp"}, 0, "8000/tcp"},
		{"several", []string{"9000/tcp", "7860/tcp"}, 0, ""},
		{"several and a choice", []string{"9000/tcp", "7860/tcp"}, 7860, "7860/tcp"},
		{"malformed", []string{"http"}, 0, "8000/tcp"},
	} {
		cfg := new(dockerspec.DockerOCIImageConfig)
		cfg.ExposedPorts = map[string]struct{}{}
		for _, p := range tt.exposed {
			cfg.ExposedPorts[p] = struct{}{}
		}
		got, err := Port("echo", cfg, tt.asked)
		if tt.want == "" {
			if err == nil || !strings.Contains(err.Error(), "7860, 9000") {
				t.Errorf("%s: %v, %v, want both listed", tt.name, got, err)
			}
		} else if err != nil || got.String() != tt.want {
			t.Errorf("%s: %v, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}
