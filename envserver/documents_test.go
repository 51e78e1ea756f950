package envserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// Report 40: no route that describes an environment builds one, and the schema of a
// reset's observation can differ.
func TestDescribingBuildsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		type firstSight struct {
			Board string `json:"board"`
		}
		w := serveLab(t, &lab{build: func(context.Context) error { panic("no display") }}, envserver.WithResetObservation[firstSight]())
		for _, path := range []string{"/schema", "/metadata", "/health", "/openapi.json", "/docs", "/list_environments", "/metrics"} {
			if status, body := w.get(path, ""); status != 200 {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		_, body := w.get("/schema", "")
		var schema map[string]struct {
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal([]byte(body), &schema); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name string
			of   map[string]any
			want []string
		}{
			{"action", schema["action"].Properties, []string{"do", "metadata", "ms"}},
			{"observation", schema["observation"].Properties, []string{"did", "done", "meta", "metadata", "n", "rate", "reward"}},
			{"reset_observation", schema["reset_observation"].Properties, []string{"board", "done", "metadata", "reward"}},
			{"state", schema["state"].Properties, []string{"episode_id", "fen", "step_count"}}, // report 39
		} {
			var names []string
			for name := range tt.of {
				names = append(names, name)
			}
			if slices.Sort(names); !slices.Equal(names, tt.want) {
				t.Errorf("%s has %v, want %v", tt.name, names, tt.want)
			}
		}
		if w.built != 0 {
			t.Errorf("%d environments were built", w.built)
		}
	})
}

func TestMetadata(t *testing.T) {
	files := fstest.MapFS{"README.md": {Data: []byte("# Lab")}}
	for _, tt := range []struct {
		name string
		opts []envserver.Option
		want string
		err  error
	}{
		{"defaults", nil, `{"name":"lab","description":"lab environment","readme_content":null,"version":"1.0.0","author":null,"documentation_url":null}`, nil},
		{
			"options",
			[]envserver.Option{envserver.WithMetadata(openenv.Metadata{Name: "l", Description: "d", Author: "a"}), envserver.WithReadme(files, "README.md")},
			`{"name":"l","description":"d","readme_content":"# Lab","version":"1.0.0","author":"a","documentation_url":null}`, nil,
		},
		{"no such file", []envserver.Option{envserver.WithReadme(files, "nope.md")}, "", fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, err := envserver.New(labSpec, new(lab).make, tt.opts...)
				if !errors.Is(err, tt.err) {
					t.Fatalf("New: %v, want %v", err, tt.err)
				}
				if err != nil {
					return
				}
				w := &world{t: t, srv: srv, at: inMemoryServer(t, srv)}
				if _, body := w.get("/metadata", ""); body != tt.want {
					t.Errorf("got %s\nwant %s", body, tt.want)
				}
			})
		})
	}
}

// The page works without a network: nothing in it leads elsewhere.
func TestThePageNeedsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithMetadata(openenv.Metadata{Name: "<script>alert(1)</script>", Description: "d"}))
		_, page := w.get("/docs", "")
		for _, outside := range regexp.MustCompile(`(?i)(src|href|action|url\(|import|fetch)[=( ]*["']?(https?:|//|data:)[^"' >]*`).FindAllString(page, -1) {
			t.Errorf("the page refers to %s", outside)
		}
		if strings.Contains(page, "<script>alert") {
			t.Error("the environment's name is not escaped")
		}
		want(t, page, "<textarea", "/ws", "/openapi.json"[1:], "do", `<td>POST</td><td><code>/step</code></td>`)
	})
}

// A transform sees every observation and no state; one for other observations is
// refused when the server is made.
func TestTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithTransform(func(res labResult) (labResult, error) {
			if res.Observation.Did == "win" {
				return res, errors.New("not on Sundays")
			}
			res.Observation.Did = strings.ToUpper(res.Observation.Did)
			return res, nil
		}))
		s := w.dial("")
		want(t, s.do("x", 0), `"did":"X"`)
		s.send(`{"type":"reset"}`)
		want(t, s.receive(), `"did":"RESET"`)
		want(t, s.do("win", 0), "EXECUTION_ERROR", "not on Sundays")
		_, body := w.get("/step", `{"action":{"do":"y"}}`)
		want(t, body, `"did":"Y"`)
	})
	_, err := envserver.New(labSpec, new(lab).make, envserver.WithTransform(func(r openenv.StepResult[int]) (openenv.StepResult[int], error) { return r, nil }))
	if err == nil || !strings.Contains(err.Error(), "WithTransform: function is a func(openenv.StepResult[int])") || !strings.Contains(err.Error(), "labObservation") {
		t.Errorf("New: %v", err)
	}
}

// A session is a span, and each call in it is one below.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		spans := tracetest.NewSpanRecorder()
		w := inMemory(t, envserver.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
		s := w.dial("")
		s.send(`{"type":"reset"}`)
		s.receive()
		s.do("x", 0)
		s.do("error", 0)
		s.send(`{"type":"state"}`)
		s.receive()
		s.send(`{"type":"close"}`)
		s.receive()
		settle()
		var got []string
		ended := spans.Ended()
		session := ended[len(ended)-1]
		for _, span := range ended {
			text := span.Name()
			if span.Status().Code == codes.Error {
				text += ": " + span.Status().Description
			}
			if span.Parent().SpanID() == session.SpanContext().SpanID() {
				text += " in a session"
			}
			attributes := map[string]string{}
			for _, a := range span.Attributes() {
				attributes[string(a.Key)] = a.Value.AsString()
			}
			if attributes["openenv.environment"] != "lab" || len(attributes["openenv.session"]) != 26 {
				t.Errorf("%s: attributes %v", span.Name(), attributes)
			}
			got = append(got, text)
		}
		if want := []string{
			"openenv.reset in a session", "openenv.step in a session", "openenv.step: no such move in a session", "openenv.state in a session", "openenv.session",
		}; !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		s := w.dial("")
		for range 3 {
			s.do("x", 0)
		}
		s.do("error", 0)
		s.send(`{"type":"state"}`)
		s.receive()
		status, body := w.get("/metrics", "")
		if status != 200 {
			t.Fatalf("status %d", status)
		}
		want(t, body, "openenv_sessions_active 1", "openenv_sessions_limit 8", "openenv_sessions_refused_total 0",
			`openenv_call_seconds_count{op="step"} 4`, `openenv_call_seconds_count{op="state"} 1`, `openenv_call_seconds_sum{op="step"}`,
			`openenv_errors_total{code="EXECUTION_ERROR"} 1`, "openenv_received_bytes_total 180", "openenv_sent_bytes_total ")
	})
}
