package envserver_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// otherBodies are the HTTP answers that are not the peer's on purpose, by method, path
// and body. "*" stands for any text.
var otherBodies = map[string]struct{ body, why string }{
	`POST /step {bad`: {
		`{"detail":[{"type":"json_invalid","loc":["body",1],"msg":"JSON decode error","input":{},"ctx":{"error":"*"}}]}`,
		"what is wrong is the JSON library's to say",
	},
}

// recordedRequest is a line of a recording of HTTP.
type recordedRequest struct {
	Method      string          `json:"method"`
	Path        string          `json:"path"`
	Body        *string         `json:"body"`
	Status      int             `json:"status"`
	ContentType string          `json:"content_type"`
	Response    json.RawMessage `json:"response"`
}

// The HTTP requests that the Python server was seen to answer get the same answers here.
func TestRecordedRequests(t *testing.T) {
	leak.Check(t)
	spec := echo.Spec
	spec.Name = "EchoEnv"
	srv, err := envserver.New(spec, echo.New)
	if err != nil {
		t.Fatal(err)
	}
	s := openenvtest.ServeLoopback(t, srv)
	for _, ex := range testenv.Recorded[recordedRequest](t, "echo-http.jsonl") {
		var body string
		if ex.Body != nil {
			body = *ex.Body
		}
		name := strings.TrimSpace(ex.Method + " " + ex.Path + " " + body)
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), ex.Method, s.URL()+ex.Path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.HTTPClient().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != ex.Status || resp.Header.Get("Content-Type") != ex.ContentType {
				t.Errorf("status %d, %s, want %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"), ex.Status, ex.ContentType)
			}
			want := decodeJSON(t, string(ex.Response))
			if other, ok := otherBodies[name]; ok {
				want = decodeJSON(t, other.body)
			}
			if ex.Path == "/schema" {
				compareSchemas(t, want, decodeJSON(t, string(got)))
			} else if !sameFrame(want, decodeJSON(t, string(got))) {
				t.Errorf("got\n%s\nwant\n%s", got, ex.Response)
			}
		})
	}
}

// compareSchemas compares what a client builds on: the properties, those required, and
// whether others are allowed. Titles and descriptions are each library's own.
func compareSchemas(t *testing.T, want, got any) {
	t.Helper()
	w, _ := want.(map[string]any)
	g, _ := got.(map[string]any)
	for name := range w {
		theirs, _ := w[name].(map[string]any)
		ours, _ := g[name].(map[string]any)
		tp, _ := theirs["properties"].(map[string]any)
		op, _ := ours["properties"].(map[string]any)
		if names := slices.Sorted(maps.Keys(op)); !slices.Equal(names, slices.Sorted(maps.Keys(tp))) {
			t.Errorf("%s has %v, the peer %v", name, names, slices.Sorted(maps.Keys(tp)))
		}
		if name == "action" && (!sameFrame(theirs["required"], ours["required"]) || !sameFrame(theirs["additionalProperties"], ours["additionalProperties"])) {
			t.Errorf("%s: required %v, additional %v; the peer %v, %v", name, ours["required"], ours["additionalProperties"], theirs["required"], theirs["additionalProperties"])
		}
	}
}
