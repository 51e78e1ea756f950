package mcp_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

type exchange struct {
	Method   string          `json:"method"`
	Path     string          `json:"path"`
	Body     string          `json:"body"`
	Response json.RawMessage `json:"response"`

	WS   string          `json:"ws"`
	Send string          `json:"send"`
	Recv json.RawMessage `json:"recv"`
}

// recordedServer serves the environment of the recordings, for three sessions at once.
func recordedServer(t *testing.T) *openenvtest.Server {
	t.Helper()
	ready := mcp.WithReset(func(context.Context, envserver.ResetParams) (openenv.StepResult[mcp.Observation], error) {
		return openenv.StepResult[mcp.Observation]{Metadata: openenv.Object{"status": "ready"}}, nil
	})
	srv, err := envserver.New(mcp.Spec, func(context.Context) (*mcp.Environment, error) {
		return mcp.NewEnvironment(newToolbox().server(t, false), ready)
	}, envserver.WithMaxSessions(3))
	if err != nil {
		t.Fatal(err)
	}
	return openenvtest.ServeLoopback(t, srv)
}

// same compares an answer with the recorded one. What may differ is listed here: ids
// and capacities by their place, texts that are a library's own by how they begin, and
// the data of an error, which says its type beyond the peer.
func same(path string, want, got any) bool {
	switch {
	case strings.HasSuffix(path, ".session_id"), strings.HasSuffix(path, ".data.episode_id"):
		return got != ""
	case strings.HasSuffix(path, ".error.data") && want == nil:
		return got == nil || at(got, "error_type") != ""
	case strings.HasSuffix(path, ".step_count"):
		return true // the peer's environment does not count tool calls
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for name := range g {
			if _, has := w[name]; !has {
				return false
			}
		}
		for name := range w {
			other, has := g[name]
			if !has || !same(path+"."+name, w[name], other) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !same(path, w[i], g[i]) {
				return false
			}
		}
		return true
	case string:
		if strings.Contains(w, "pydantic") {
			text, ok := got.(string)
			return ok && (strings.HasPrefix(text, "Invalid ") || strings.HasPrefix(text, "Invalid arguments for tool 'add': "))
		}
		if strings.HasPrefix(w, "Parse error: ") {
			return got == "Parse error"
		}
		if strings.HasPrefix(w, "Unknown session_id: ") {
			text, ok := got.(string)
			return ok && strings.HasPrefix(text, "Unknown session_id: ")
		}
	}
	return reflect.DeepEqual(want, got)
}

func compare(t *testing.T, request string, want json.RawMessage, got any) {
	t.Helper()
	var w any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if !same("", w, got) {
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s: got\n%s\nwant\n%s", request, text, want)
	}
}

// What the Python server was seen to answer on its sockets is answered here, by the
// same tools made in Go.
func TestRecordedSockets(t *testing.T) {
	for file, path := range map[string]string{"mcp-ws.jsonl": "/ws", "mcp-socket.jsonl": "/mcp"} {
		t.Run(file, func(t *testing.T) {
			leak.Check(t)
			l := dial(t, recordedServer(t), path)
			for _, ex := range testenv.Recorded[exchange](t, file) {
				compare(t, ex.Send, ex.Recv, any(l.ask(ex.Send)))
			}
		})
	}
}

// The same over HTTP. Only initialize is answered otherwise, on purpose: this server
// speaks the standard protocol, too.
func TestRecordedHTTP(t *testing.T) {
	leak.Check(t)
	s := recordedServer(t)
	var id string // of the session that is used
	recorded := ""
	var attached *line
	for _, ex := range testenv.Recorded[exchange](t, "mcp-http.jsonl") {
		switch {
		case strings.Contains(ex.Body, `"initialize"`):
			continue
		case ex.WS != "" && ex.Send != "":
			attached = dial(t, s, strings.ReplaceAll(ex.WS, recorded, id))
			compare(t, ex.Send, ex.Recv, any(attached.ask(ex.Send)))
		case ex.WS != "":
			got := dial(t, s, strings.ReplaceAll(ex.WS, recorded, id)).next()
			compare(t, ex.WS, json.RawMessage(strings.ReplaceAll(string(ex.Recv), recorded, id)), any(got))
		default:
			body := ex.Body
			if recorded != "" {
				body = strings.ReplaceAll(body, recorded, id)
			}
			if attached != nil && strings.Contains(string(ex.Response), "Unknown session_id") {
				_ = attached.ws.CloseNow()
				attached = nil
				untilGone(t, s, id)
			}
			var got map[string]any
			if err := json.Unmarshal(postBody(t, s, body), &got); err != nil {
				t.Fatal(err)
			}
			if made, ok := at(got, "result", "session_id").(string); ok && recorded == "" {
				var theirs map[string]any
				if err := json.Unmarshal(ex.Response, &theirs); err != nil {
					t.Fatal(err)
				}
				id, recorded = made, at(theirs, "result", "session_id").(string)
			}
			compare(t, ex.Body, ex.Response, any(got))
		}
	}
}

// untilGone waits for a session to end whose socket has left.
func untilGone(t *testing.T, s *openenvtest.Server, id string) {
	t.Helper()
	for at(post(t, s, "tools/list", `{"session_id":"`+id+`"}`), "error", "code") != -32602.0 {
		if t.Context().Err() != nil {
			t.Fatal("the session does not end")
		}
	}
}
