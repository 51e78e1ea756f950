package envserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
)

// Report 42: what is not a frame of the protocol gets one error frame, and the session
// lives on.
func TestMalformedFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		s := w.dial("")
		for _, tt := range []struct{ frame, code, text string }{
			{`[]`, "INVALID_JSON", "message is not a JSON object but a JSON array"},
			{`"x"`, "INVALID_JSON", "a JSON string"},
			{`null`, "INVALID_JSON", "a JSON null"},
			{`1`, "INVALID_JSON", "a JSON number"},
			{`{`, "INVALID_JSON", ""},
			{``, "INVALID_JSON", ""},
			{`{}{}`, "INVALID_JSON", "more than one JSON value"},
			{`{"type":"state"} x`, "INVALID_JSON", ""},
			{"\xff", "INVALID_JSON", ""},
			{`{"type":"step","data":{"do":"a","do":"b"}}`, "INVALID_JSON", "duplicate"},
			{`{"type":"step","data":{"do":"a"}},"x":1}`, "INVALID_JSON", ""},
			{`{}`, "UNKNOWN_TYPE", `"message":"Unknown message type: "`},
			{`{"type":5}`, "UNKNOWN_TYPE", ""},
			{`{"type":"nope","data":{}}`, "UNKNOWN_TYPE", `"Unknown message type: nope"`},
			{`{"type":"step"}`, "VALIDATION_ERROR", `"errors":[{"type":"missing","loc":["data"],"msg":"Field required","input":{"type":"step"}}]`},
			{`{"type":"step","data":[]}`, "VALIDATION_ERROR", `"dict_type"`},
			{`{"type":"step","data":"{\"do\":\"x\"}"}`, "VALIDATION_ERROR", `"dict_type"`},
			{`{"type":"step","data":null}`, "VALIDATION_ERROR", `"dict_type"`},
			{`{"type":"step","data":{"do":"x"},"extra":1}`, "VALIDATION_ERROR", `"loc":["extra"]`},
			{`{"type":"state","data":{}}`, "VALIDATION_ERROR", `"extra_forbidden"`},
			{`{"type":"close","data":{}}`, "VALIDATION_ERROR", `"extra_forbidden"`},
			{`{"type":"reset","data":[]}`, "VALIDATION_ERROR", `"dict_type"`},
			{`{"type":"reset","data":{"seed":"x"}}`, "VALIDATION_ERROR", `"int_parsing"`},
			{`{"type":"reset","data":{"seed":1.5,"episode_id":7}}`, "VALIDATION_ERROR", `"loc":["episode_id"]`},
			{`{"type":"reset","data":{"seed":9223372036854775808}}`, "VALIDATION_ERROR", `"loc":["seed"]`},
			{"binary", "INVALID_JSON", "binary frames are not part of the protocol"},
		} {
			typ := websocket.MessageText
			if tt.frame == "binary" {
				typ = websocket.MessageBinary
			}
			if err := s.ws.Write(t.Context(), typ, []byte(tt.frame)); err != nil {
				t.Fatalf("%q: %v", tt.frame, err)
			}
			frame := s.receive()
			want(t, frame, `{"type":"error","data":{`, `"code":"`+tt.code+`"`, tt.text)
			s.send(`{"type":"reset","data":{"seed":7}}`)
			want(t, s.receive(), `"type":"observation"`, `"n":7`)
		}
		if n := w.srv.ActiveSessions(); n != 1 {
			t.Errorf("%d sessions", n)
		}
		_, metrics := w.get("/metrics", "")
		want(t, metrics, `openenv_errors_total{code="INVALID_JSON"} 12`, `openenv_errors_total{code="UNKNOWN_TYPE"} 3`, `openenv_errors_total{code="VALIDATION_ERROR"} 11`)
	})
}

// A message above the limit ends its session with 1009 and no other.
func TestMessageLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t, envserver.WithMaxMessageSize(1000))
		a, b := w.dial(""), w.dial("")
		b.do("x", 0)
		go func() {
			_ = a.ws.Write(context.Background(), websocket.MessageText, []byte(`{"type":"`+strings.Repeat("x", 1000)+`"}`)) // cut off
		}()
		want(t, a.receive(), "closed 1009")
		want(t, b.do("x", 0), `"n":2`)
		status, body := w.get("/step", `{"action":{"do":"`+strings.Repeat("x", 1000)+`"}}`)
		if status != 413 || !strings.Contains(body, `"detail"`) {
			t.Errorf("a large body: %d %s", status, body)
		}
		if status, _ := w.get("/step", `{"action":{"do":"x"}}`); status != 200 {
			t.Errorf("a small body: %d", status)
		}
	})
}

// Reports 37, 38, 39 and 43, on both transports: metadata stands inside the observation
// and beside the reward, a null reward stays null, the state has the environment's own
// fields, and what JSON cannot carry is refused by name.
func TestWhatEnvironmentsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		s := w.dial("")
		for _, tt := range []struct {
			frame, path, body string
			status            int
			socket, http      []string
		}{
			{
				`{"type":"step","data":{"do":"meta"}}`, "/step", `{"action":{"do":"meta"}}`, 200,
				[]string{`"observation":{"metadata":{"a":1},`, `"reward":null,"done":false,"metadata":{"a":1}}`},
				[]string{`"observation":{"metadata":{"a":1},`, `"reward":null,"done":false,"metadata":{"a":1}}`},
			},
			{
				`{"type":"reset","data":{"episode_id":"with metadata"}}`, "/reset", `{"episode_id":"with metadata"}`, 200,
				[]string{`"metadata":{"a":1}}}`}, []string{`"metadata":{"a":1}}`},
			},
			{
				`{"type":"step","data":{"do":"win"}}`, "/step", `{"action":{"do":"win"}}`, 200,
				[]string{`"reward":-1.0,"done":true}`}, []string{`"reward":-1.0,"done":true,"metadata":null}`},
			},
			{
				`{"type":"step","data":{"do":"x","metadata":{"from":"agent"}}}`, "/step", `{"action":{"do":"x","metadata":{"from":"agent"}}}`, 200,
				[]string{`"meta":{"from":"agent"}`}, []string{`"meta":{"from":"agent"}`},
			},
			{`{"type":"state"}`, "/state", "", 200, []string{`"fen":"8/8"`, `"episode_id":"e"`}, []string{`{"episode_id":"e","step_count":0,"fen":"8/8"}`}},
			{
				`{"type":"step","data":{"do":"nan"}}`, "/step", `{"action":{"do":"nan"}}`, 500,
				[]string{"EXECUTION_ERROR", "environment returned a reward of NaN, which JSON cannot carry"}, []string{"reward of NaN"},
			},
			{
				`{"type":"step","data":{"do":"inf inside"}}`, "/step", `{"action":{"do":"inf inside"}}`, 500,
				[]string{"EXECUTION_ERROR", "observation that cannot be encoded: /rate: unsupported value: +Inf"}, []string{"/rate: unsupported value: +Inf"},
			},
			{`{"type":"step","data":{"do":"error"}}`, "/step", `{"action":{"do":"error"}}`, 500, []string{`"code":"EXECUTION_ERROR","message":"no such move"`}, []string{`{"detail":"no such move"}`}},
		} {
			s.send(tt.frame)
			want(t, s.receive(), tt.socket...)
			status, body := w.get(tt.path, tt.body)
			if status != tt.status {
				t.Errorf("%s %s: status %d", tt.path, tt.body, status)
			}
			want(t, body, tt.http...)
			want(t, s.do("x", 0), `"did":"x"`)
		}
	})
}

// Report 44: reset parameters reach the environment, and one that names its own has
// every other refused by name.
func TestResetParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		w := inMemory(t)
		s := w.dial("")
		for _, seed := range []string{"7", "7.0", "-7", "7e0"} {
			s.send(`{"type":"reset","data":{"seed":` + seed + `,"level":"x"}}`)
			want(t, s.receive(), `"did":"reset to x"`, fmt.Sprintf(`"n":%s7`, strings.TrimRight(seed[:1], "7")))
		}
		s.send(`{"type":"reset"}`)
		want(t, s.receive(), `"did":"reset"`)
		s.send(`{"type":"reset","data":{"seed":null,"episode_id":null}}`)
		want(t, s.receive(), `"did":"reset"`)

		build := func(context.Context) (*strict, error) { return new(strict), nil }
		srv, err := envserver.New(openenv.Spec[labAction, labObservation, openenv.State]{Name: "strict"}, build)
		if err != nil {
			t.Fatal(err)
		}
		ws := &world{t: t, srv: srv, at: inMemoryServer(t, srv)}
		s = ws.dial("")
		s.send(`{"type":"reset","data":{"seed":7,"level":"x","speed":3,"colour":"red"}}`)
		want(t, s.receive(), `"code":"VALIDATION_ERROR"`,
			`"errors":[{"type":"unexpected_keyword_argument","loc":["level"],"msg":"Unexpected keyword argument","input":"x"},{"type":"unexpected_keyword_argument","loc":["colour"]`)
		s.send(`{"type":"reset","data":{"seed":7,"speed":3}}`)
		want(t, s.receive(), `"type":"observation"`)
		if status, body := ws.get("/reset", `{"level":"x"}`); status != 422 || !strings.Contains(body, `"loc":["level"]`) {
			t.Errorf("over HTTP: %d %s", status, body)
		}
	})
}

type strict struct{ solitary }

func (*strict) ResetParameters() []string { return []string{"speed"} }

// Report 36: an environment's own action wins over the tool protocol's names. Report 35:
// an mcp frame is answered by the session that it came on, also when every slot is taken.
func TestNoNestedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		type toolAction struct {
			Type string `json:"type"`
			Name string `json:"tool_name"`
		}
		srv, err := envserver.New(openenv.Spec[toolAction, toolAction, openenv.State]{Name: "tools"},
			func(context.Context) (echoing[toolAction], error) { return echoing[toolAction]{}, nil },
			envserver.WithMaxSessions(8), envserver.WithConcurrentSessions())
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, srv: srv, at: inMemoryServer(t, srv)}
		for range 8 {
			s := w.dial("")
			s.send(`{"type":"step","data":{"type":"call_tool","tool_name":"x"}}`)
			want(t, s.receive(), `"type":"call_tool","tool_name":"x"`)
			s.send(`{"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/list","id":1}}`)
			want(t, s.receive(), "Environment does not support MCP")
		}
	})
}

// echoing observes its action.
type echoing[A any] struct{}

func (echoing[A]) Reset(context.Context, envserver.ResetParams) (res openenv.StepResult[A], err error) {
	return res, nil
}

func (echoing[A]) Step(_ context.Context, a A) (openenv.StepResult[A], error) {
	return openenv.StepResult[A]{Observation: a}, nil
}
func (echoing[A]) State(context.Context) (openenv.State, error) { return openenv.State{}, nil }

// An action whose schema says more than its shape can has its metadata read, too.
func TestActionMetadataOfAnEnum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		type word string
		type action struct {
			Do word `json:"do"`
		}
		var got openenv.Object
		srv, err := envserver.New(openenv.Spec[action, action, openenv.State]{Name: "enum"},
			func(context.Context) (metadataReader[action], error) { return metadataReader[action]{got: &got}, nil },
			envserver.WithSchema[word](`{"type":"string","pattern":"^[a-z]+$"}`))
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, srv: srv, at: inMemoryServer(t, srv)}
		s := w.dial("")
		s.send(`{"type":"step","data":{"do":"go","metadata":{"k":1}}}`)
		want(t, s.receive(), `"do":"go"`)
		if got["k"] != 1.0 {
			t.Errorf("metadata %v", got)
		}
		s.send(`{"type":"step","data":{"do":"GO"}}`)
		want(t, s.receive(), `"string_pattern_mismatch"`)
	})
	_, err := envserver.New(labSpec, new(lab).make, envserver.WithSchema[string](`{`))
	if err == nil || !strings.Contains(err.Error(), "WithSchema[string]") {
		t.Errorf("New: %v", err)
	}
}

type metadataReader[A any] struct {
	echoing[A]

	got *openenv.Object
}

func (m metadataReader[A]) Step(ctx context.Context, a A) (openenv.StepResult[A], error) {
	*m.got = envserver.ActionMetadata(ctx)
	return m.echoing.Step(ctx, a)
}
