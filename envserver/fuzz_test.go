package envserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/openenvtest"
)

// fuzzAction has a field of every kind that a frame can get wrong.
type fuzzAction struct {
	Text  string            `json:"text"`
	N     int8              `json:"n,omitempty"`
	U     *uint             `json:"u,omitempty"`
	F     float64           `json:"f,omitempty"`
	B     *bool             `json:"b,omitempty"`
	Move  fuzzMove          `json:"move,omitempty"`
	In    *fuzzAction2      `json:"in,omitempty"`
	List  []fuzzAction2     `json:"list,omitempty"`
	Map   map[string]int    `json:"map,omitempty"`
	Pair  [2]int            `json:"pair,omitzero"`
	Any   any               `json:"any,omitempty"`
	Notes map[string]string `json:"notes,omitempty"`
}

type (
	fuzzAction2 struct {
		X int `json:"x"`
	}
	fuzzMove string
)

func fuzzServer(t testing.TB) *envserver.Server {
	t.Helper()
	srv, err := envserver.New(openenv.Spec[fuzzAction, fuzzAction, openenv.State]{Name: "fuzz"},
		func(context.Context) (echoing[fuzzAction], error) { return echoing[fuzzAction]{}, nil },
		envserver.WithSchema[fuzzMove](`{"type":"string","enum":["up","down"]}`), envserver.WithMaxMessageSize(1<<20),
		envserver.WithKeepalive(0, 0)) // a fuzzer that pauses reads nothing
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

var seeds = []string{
	`{"text":"t"}`, `{"text":"t","n":-128,"u":0,"f":1e5,"b":true,"move":"up","in":{"x":1},"list":[{"x":2}],"map":{"a":1},"pair":[1,2],"any":[null],"notes":{"k":"v"}}`,
	`{"text":"\u0041\\\"","n":1.0,"u":1e2}`, `{"text":5,"zz":[1,{"a":2}],"n":128,"move":"left"}`, `{"list":[null,{"x":1.5,"y":2}],"pair":[1]}`,
	`{"\u0074ext":"t"}`, `{"text":"t","metadata":{"a":{"b":[]}}}`, `{"text":"t","metadata":null}`, `[]`, `null`, `1e400`, `{"text":"t","n":1e400}`, `{`, ``,
	`{"text":"t","u":18446744073709551615}`, `{"text":"t","u":18446744073709551616}`, `{"text":"t","text":"u"}`, `{"TEXT":"t"}`,
}

// Whatever a client sends on the socket, it gets one frame for it, and the session lives
// on.
func FuzzSessionFrames(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), false)
		f.Add([]byte(`{"type":"step","data":`+s+`}`), false)
		f.Add([]byte(`{"type": "reset", "data": `+s+`}`), false)
		f.Add([]byte(`{"type":"mcp","data":`+s+`}`), true)
		f.Add([]byte(`{"data":`+s+`,"type":"step","x":1}`), false)
	}
	f.Add([]byte(`{"type":"mcp","data":{"jsonrpc":"2.0","id":[],"method":"openenv/session/close","params":{"session_id":5}}}`), false)
	srv := fuzzServer(f)
	at := openenvtest.Serve(f, srv)
	dial := func(t testing.TB) *websocket.Conn {
		ws, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(at.URL(), "http")+"/ws", &websocket.DialOptions{HTTPClient: at.HTTPClient()})
		if err != nil {
			t.Fatal(err)
		}
		ws.SetReadLimit(-1)
		return ws
	}
	ws := dial(f)
	f.Cleanup(func() { _ = ws.CloseNow() }) // closed already, as a rule
	f.Fuzz(func(t *testing.T, frame []byte, binary bool) {
		typ := websocket.MessageText
		if binary {
			typ = websocket.MessageBinary
		}
		exchange := func(typ websocket.MessageType, frame []byte) (string, error) {
			if err := ws.Write(context.Background(), typ, frame); err != nil {
				return "", err
			}
			_, reply, err := ws.Read(context.Background())
			return string(reply), err
		}
		reply, err := exchange(typ, frame)
		var asked map[string]any
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure && json.Unmarshal(frame, &asked) == nil && asked["type"] == "close" {
			ws = dial(t)
			return
		}
		if err != nil {
			_ = ws.CloseNow()
			ws = dial(t) // for the fuzzer, which tries to find a smaller frame that does this
			t.Fatalf("%q ended the session: %v", frame, err)
		}
		var answer struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(reply), &answer); err != nil || !utf8.ValidString(reply) || answer.Type == "" {
			t.Fatalf("%q is answered with %q, %v", frame, reply, err)
		}
		reply, err = exchange(websocket.MessageText, []byte(`{"type":"step","data":{"text":"alive"}}`))
		if err != nil || !strings.Contains(reply, `"text":"alive"`) {
			t.Fatalf("after %q: %q, %v", frame, reply, err)
		}
	})
}

// Whatever stands behind a number, it gets one frame with that number, the same one when
// it is sent again, and the session lives on.
func FuzzNumberedFrames(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(`"type":"step","data":` + s + `}`))
		f.Add([]byte(`"type":"reset","data":` + s + `}`))
		f.Add([]byte(`"type":"mcp","data":` + s + `}`))
		f.Add([]byte(`"data":` + s + `,"type":"step","id":1}`))
	}
	f.Add([]byte(`"type":"state"}`))
	f.Add([]byte(`"type": "cancel"}`))
	f.Add([]byte(`"type":"close"}`))
	srv := fuzzServer(f)
	at := openenvtest.Serve(f, srv)
	f.Fuzz(func(t *testing.T, rest []byte) {
		if string(rest) == `"type":"cancel"}` || bytes.HasPrefix(rest, []byte(`"ms":`)) {
			return // has no reply; has a time
		}
		w := &world{t: t, srv: srv, at: at}
		s := w.attach(w.create())
		frame := append([]byte(`{"id":1,`), rest...)
		reply := s.ask(string(frame))
		var asked map[string]any
		if reply == "closed 1000" && json.Unmarshal(frame, &asked) == nil && asked["type"] == "close" {
			return
		}
		if !strings.HasPrefix(reply, `{"id":1,"type":"`) || !json.Valid([]byte(reply)) {
			t.Errorf("%q is answered with %q", frame, reply)
		}
		if again := s.ask(string(frame)); again != reply {
			t.Errorf("%q is answered with %q, then with %q", frame, reply, again)
		}
		if got := s.ask(`{"id":2,"type":"close"}`); got != "closed 1000" {
			t.Errorf("after %q: %q", frame, got)
		}
	})
}

// Whatever is posted, the answer is JSON and no server error.
func FuzzHTTPBodies(f *testing.F) {
	paths := []string{"/reset", "/step", "/mcp", "/fuzz/tasks", "/fuzz/task", "/fuzz/task_range"}
	for _, s := range seeds {
		for i := range paths {
			f.Add(i, []byte(s))
		}
		f.Add(1, []byte(`{"action":`+s+`}`))
		f.Add(2, []byte(`{"jsonrpc":"2.0","method":"tools/call","params":`+s+`}`))
		f.Add(5, []byte(`{"split":"train","start":`+s+`}`))
	}
	srv := fuzzServer(f)
	f.Fuzz(func(t *testing.T, route int, body []byte) {
		path := paths[uint(route)%uint(len(paths))]
		rec := httptest.NewRecorder()
		srv.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body)))
		switch rec.Code {
		case 200, 422, 501:
		default:
			t.Errorf("%s %q: status %d: %s", path, body, rec.Code, rec.Body)
		}
		if !json.Valid(rec.Body.Bytes()) {
			t.Errorf("%s %q is answered with %q", path, body, rec.Body)
		}
		if n := srv.ActiveSessions(); n > 1 {
			t.Errorf("%d sessions", n)
		}
	})
}
