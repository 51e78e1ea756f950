package wire_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/wire"
)

// exchange is one line of a recording: what the client sent and what the Python
// server answered.
type exchange struct {
	Send string          `json:"send"`
	Recv json.RawMessage `json:"recv"`
}

// recorded reads testdata/recorded/name.jsonl.
func recorded(t testing.TB, name string) []exchange {
	t.Helper()
	file, err := os.Open("testdata/recorded/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []exchange
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var x exchange
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return all
}

// replies are the recorded frames of the session socket, each as it is in the
// file and as it was on the wire, without the spaces.
func replies(t testing.TB) [][]byte {
	t.Helper()
	var frames [][]byte
	for _, name := range []string{"echo-ws", "echo-ws-close", "mcp-ws"} {
		for _, x := range recorded(t, name) {
			if x.Recv != nil {
				frames = append(frames, x.Recv, compact(t, x.Recv))
			}
		}
	}
	return frames
}

func compact(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := json.Compact(&buf, b); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// same reports whether two texts are the same JSON value.
func same(t testing.TB, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatalf("%v in\n%s\n%s", err, a, b)
	}
	return reflect.DeepEqual(x, y)
}

// echo and toolState are what a user would write for the recorded environments.
type (
	echo struct {
		Echoed string `json:"echoed"`
		Length int    `json:"length"`
	}
	episode struct {
		ID    string `json:"episode_id"`
		Steps int    `json:"step_count"`
	}
)

func TestRecordedRepliesDecodeAsTheirTypeSays(t *testing.T) {
	seen := map[string]int{}
	for _, frame := range replies(t) {
		var want struct {
			Type string         `json:"type"`
			Data map[string]any `json:"data"`
		}
		if err := json.Unmarshal(frame, &want); err != nil {
			t.Fatal(err)
		}
		typ, err := wire.ReplyType(frame)
		if err != nil || typ != want.Type {
			t.Errorf("type: got %q, %v, want %q in %s", typ, err, want.Type, frame)
			continue
		}
		seen[typ]++
		switch typ {
		case wire.TypeObservation:
			got, err := wire.DecodeObservation[map[string]any](frame, wire.Float64)
			reward, _ := want.Data["reward"].(float64)
			metadata, _ := want.Data["metadata"].(map[string]any)
			if err != nil || !reflect.DeepEqual(got.Observation, want.Data["observation"]) ||
				(got.Reward != nil) != (want.Data["reward"] != nil) || got.Reward != nil && *got.Reward != reward ||
				got.Done != want.Data["done"] || !maps.EqualFunc(got.Metadata, metadata, deepEqual) {
				t.Errorf("observation: got %+v, %v from %s", got, err, frame)
			}
		case wire.TypeState:
			got, err := wire.DecodeState[map[string]any](frame, wire.Float64)
			if err != nil || !reflect.DeepEqual(got, want.Data) {
				t.Errorf("state: got %v, %v from %s", got, err, frame)
			}
		case wire.TypeError:
			got, err := wire.DecodeError(frame)
			if err != nil || got.Code != want.Data["code"] || got.Message != want.Data["message"] {
				t.Errorf("error: got %+v, %v from %s", got, err, frame)
			}
			delete(want.Data, "code")
			delete(want.Data, "message")
			if !maps.EqualFunc(got.Details, want.Data, deepEqual) {
				t.Errorf("details: got %v, want %v", got.Details, want.Data)
			}
		case wire.TypeMCP:
			got, err := wire.Data(frame)
			data, _ := json.Marshal(want.Data)
			if err != nil || !same(t, got, data) {
				t.Errorf("mcp: got %s, %v from %s", got, err, frame)
			}
		}
	}
	// Each frame counts twice. A recording that lost its frames proves nothing.
	want := map[string]int{wire.TypeObservation: 24, wire.TypeState: 6, wire.TypeError: 18, wire.TypeMCP: 6}
	if !maps.Equal(seen, want) {
		t.Errorf("frames by type: got %v, want %v", seen, want)
	}
}

func deepEqual(a, b any) bool { return reflect.DeepEqual(a, b) }

func TestRecordedValues(t *testing.T) {
	echoes := recorded(t, "echo-ws")
	for _, test := range []struct {
		line   int
		want   echo
		reward *float64
	}{
		{0, echo{"ready", 0}, nil},
		{1, echo{"ready", 0}, nil},
		{3, echo{"hi", 2}, new(0.2)},
		{4, echo{"héllo 😀", 7}, new(0.7000000000000001)},
	} {
		got, err := wire.DecodeObservation[echo](echoes[test.line].Recv, wire.Float64)
		if err != nil || got.Observation != test.want || got.Done || got.Metadata != nil || !reflect.DeepEqual(got.Reward, test.reward) {
			t.Errorf("line %d: got %+v, %v, want %+v with reward %v", test.line+1, got, err, test.want, test.reward)
		}
	}
	state, err := wire.DecodeState[episode](echoes[10].Recv, wire.Float64)
	if want := (episode{"0746530e-02d8-4110-b9c4-fbab46a80ad6", 2}); err != nil || state != want {
		t.Errorf("state: got %+v, %v, want %+v", state, err, want)
	}
}

func TestRecordedMetadataBesideReward(t *testing.T) {
	reset := recorded(t, "mcp-ws")[0].Recv
	got, err := wire.DecodeObservation[map[string]any](reset, wire.Float64)
	want := map[string]any{"status": "ready"}
	if err != nil || !reflect.DeepEqual(got.Metadata, want) || !reflect.DeepEqual(got.Observation["metadata"], any(want)) {
		t.Errorf("got %+v, %v, want metadata %v beside reward and in the observation", got, err, want)
	}
}

func TestRecordedValidationErrors(t *testing.T) {
	got, err := wire.DecodeError(recorded(t, "echo-ws")[5].Recv)
	if err != nil || got.Code != wire.CodeValidation || got.Message != "Invalid message" || len(got.Details) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	list, _ := got.Details["errors"].([]any)
	var types []string
	for _, e := range list {
		one := e.(map[string]any)
		types = append(types, fmt.Sprintf("%v %v %v %v", one["type"], one["loc"], one["msg"], one["input"]))
	}
	want := []string{
		"missing [message] Field required map[msg:hi]",
		"extra_forbidden [msg] Extra inputs are not permitted hi",
	}
	if !slices.Equal(types, want) {
		t.Errorf("errors: got %q, want %q", types, want)
	}
}

// Every text that a client sent in the recordings, and how a server reads it.
func TestRecordedRequestsAreParsed(t *testing.T) {
	type parsed struct{ typ, data, extra, err string }
	want := map[string]parsed{
		`{"type":"reset","data":{}}`: {typ: "reset", data: `{}`},
		`{"type":"reset","data":{"seed":7,"episode_id":"e-1","unknown":true}}`: {typ: "reset", data: `{"seed":7,"episode_id":"e-1","unknown":true}`},
		`{"type":"reset","data":{"episode_id":"e-1"}}`:                         {typ: "reset", data: `{"episode_id":"e-1"}`},
		`{"type":"reset"}`:                                             {typ: "reset"},
		`{"type":"step","data":{"message":"hi"}}`:                      {typ: "step", data: `{"message":"hi"}`},
		`{"type":"step","data":{"message":"h\u00e9llo \ud83d\ude00"}}`: {typ: "step", data: `{"message":"h\u00e9llo \ud83d\ude00"}`},
		`{"type":"step","data":{"msg":"hi"}}`:                          {typ: "step", data: `{"msg":"hi"}`},
		`{"type":"step","data":{"message":5}}`:                         {typ: "step", data: `{"message":5}`},
		`{"type":"step","data":{"message":"hi"},"extra":1}`:            {typ: "step", data: `{"message":"hi"}`, extra: "extra=1"},
		`{"type":"step"}`:                                              {typ: "step"},
		`{"type":"step","data":null}`:                                  {typ: "step", data: `null`},
		`{"type":"state"}`:                                             {typ: "state"},
		`{"type":"close"}`:                                             {typ: "close"},
		`{"type":"nope"}`:                                              {typ: "nope"},
		`{}`:                                                           {},
		`not json`:                                                     {err: "syntax"},
		`[]`:                                                           {err: "not an object"},
		`{"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/list","id":1}}`: {typ: "mcp", data: `{"jsonrpc":"2.0","method":"tools/list","id":1}`},
		`{"type":"step","data":{"type":"list_tools"}}`:                         {typ: "step", data: `{"type":"list_tools"}`},
		`{"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/list","params":{},"id":"a"}}`: {
			typ: "mcp", data: `{"jsonrpc":"2.0","method":"tools/list","params":{},"id":"a"}`},
		`{"type":"mcp","data":{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":5}},"id":0}}`: {
			typ: "mcp", data: `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":5}},"id":0}`},
	}
	for _, call := range []string{`"add","arguments":{"a":1,"b":2}`, `"add","arguments":{"a":"x"}`, `"fail","arguments":{"why":"boom"}`, `"nope","arguments":{}`} {
		data := `{"type":"call_tool","tool_name":` + call + `}`
		want[`{"type":"step","data":`+data+`}`] = parsed{typ: "step", data: data}
	}
	for _, name := range []string{"echo-ws", "echo-ws-close", "mcp-ws"} {
		for _, x := range recorded(t, name) {
			w, ok := want[x.Send]
			if !ok {
				t.Errorf("no row for %s", x.Send)
				continue
			}
			req, err := wire.ParseRequest([]byte(x.Send))
			got := parsed{typ: req.Type, data: string(req.Data)}
			for _, m := range req.Extra {
				got.extra += m.Name + "=" + string(m.Value)
			}
			if err != nil {
				got.err = "syntax"
			}
			if errors.Is(err, wire.ErrNotObject) {
				got.err = "not an object"
			}
			if got != w {
				t.Errorf("%s: got %+v (%v), want %+v", x.Send, got, err, w)
			}
		}
	}
}

// What our client writes is, byte for byte, what was recorded of the Python
// client's protocol.
func TestFramesEqualTheRecordedRequests(t *testing.T) {
	type reset struct {
		Seed    int    `json:"seed,omitempty"`
		Episode string `json:"episode_id,omitempty"`
		Unknown bool   `json:"unknown,omitempty"`
	}
	type call struct {
		Type string `json:"type"`
		Tool string `json:"tool_name"`
		Args any    `json:"arguments"`
	}
	recordings := map[string]bool{}
	for _, name := range []string{"echo-ws", "echo-ws-close", "mcp-ws"} {
		for _, x := range recorded(t, name) {
			recordings[x.Send] = true
		}
	}
	for _, test := range []struct {
		typ  string
		data any
	}{
		{wire.TypeReset, map[string]any{}},
		{wire.TypeReset, reset{}},
		{wire.TypeReset, reset{Seed: 7, Episode: "e-1", Unknown: true}},
		{wire.TypeReset, &reset{Episode: "e-1"}},
		{wire.TypeStep, map[string]any{"message": "hi"}},
		{wire.TypeStep, json.RawMessage(`{"type":"list_tools"}`)},
		{wire.TypeStep, call{"call_tool", "add", map[string]int{"a": 1, "b": 2}}},
		{wire.TypeMCP, json.RawMessage(`{"jsonrpc":"2.0","method":"tools/list","id":1}`)},
	} {
		var buf bytes.Buffer
		if err := wire.AppendFrame(&buf, test.typ, test.data); err != nil || !recordings[buf.String()] {
			t.Errorf("%s %+v: got %s, %v, which no client sent", test.typ, test.data, &buf, err)
		}
	}
	for _, frame := range [][]byte{wire.StateRequest, wire.CloseRequest} {
		if !recordings[string(frame)] {
			t.Errorf("%s was never sent", frame)
		}
	}
}

// What our server writes is, as a JSON value, what the Python server answered.
func TestFramesEqualTheRecordedReplies(t *testing.T) {
	for _, frame := range replies(t) {
		var buf bytes.Buffer
		typ, err := wire.ReplyType(frame)
		if err != nil {
			t.Fatal(err)
		}
		switch typ {
		case wire.TypeObservation:
			var o wire.Observation[map[string]any]
			if o, err = wire.DecodeObservation[map[string]any](frame, wire.Float64); err == nil {
				delete(o.Observation, "metadata") // the encoder's own work
				err = wire.AppendObservation(&buf, o.Observation, o.Reward, o.Done, o.Metadata)
			}
		case wire.TypeError:
			var e wire.Error
			if e, err = wire.DecodeError(frame); err == nil {
				err = wire.AppendError(&buf, e)
			}
		case wire.TypeState:
			var s episode
			if s, err = wire.DecodeState[episode](frame, wire.Float64); err == nil {
				err = wire.AppendFrame(&buf, wire.TypeState, s)
			}
		default:
			continue
		}
		if err != nil || !same(t, buf.Bytes(), frame) {
			t.Errorf("got %s, %v, want %s", &buf, err, frame)
		}
	}
	var buf bytes.Buffer
	err := wire.AppendObservation(&buf, echo{"hi", 2}, new(0.2), false, nil)
	if want := recorded(t, "echo-ws")[3].Recv; err != nil || buf.String() != strings.TrimSpace(string(compact(t, want))) {
		t.Errorf("a typed observation: got %s, %v, want the bytes of %s", &buf, err, want)
	}
}
