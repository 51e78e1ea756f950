package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/wire"
)

func TestParseRequest(t *testing.T) {
	const notObject, syntax = "not an object", "syntax"
	for _, test := range []struct {
		name, text       string
		typ, data, extra string
		err              string
	}{
		{name: "array", text: `[]`, err: notObject},
		{name: "string", text: `"x"`, err: notObject},
		{name: "null", text: `null`, err: notObject},
		{name: "number", text: `1`, err: notObject},
		{name: "boolean", text: `true`, err: notObject},
		{name: "an array that is not JSON", text: `[1,`, err: syntax},
		{name: "empty object", text: `{}`},
		{name: "type is a number", text: `{"type":5}`},
		{name: "type is null", text: `{"type":null}`},
		{name: "type is an object", text: `{"type":{"a":1}}`},
		{name: "type in another case", text: `{"Type":"step"}`, extra: `Type="step"`},
		{name: "escapes in the type", text: `{"t\u0079pe":"st\u0065p"}`, typ: "step"},
		{name: "spaces", text: " {\n\"type\" : \"step\" , \"data\" : { \"a\" : 1 } }\r\n", typ: "step", data: `{ "a" : 1 }`},
		{name: "data before type", text: `{"data":{"a":1},"type":"step"}`, typ: "step", data: `{"a":1}`},
		{name: "data is not an object", text: `{"type":"step","data":[1]}`, typ: "step", data: `[1]`},
		{name: "extra keys in order", text: `{"z":1,"type":"step","a":{"b":2}}`, typ: "step", extra: `z=1 a={"b":2}`},
		{name: "every digit kept", text: `{"type":"step","data":{"n":12345678901234567890.10}}`, typ: "step", data: `{"n":12345678901234567890.10}`},

		{name: "nothing", text: ``, err: syntax},
		{name: "spaces alone", text: "  ", err: syntax},
		{name: "half an object", text: `{`, err: syntax},
		{name: "half a string", text: `{"type":"st`, err: syntax},
		{name: "a comma too many", text: `{"type":"step",}`, err: syntax},
		{name: "a key that is no string", text: `{1:2}`, err: syntax},
		{name: "not JSON", text: `step`, err: syntax},
		{name: "NaN", text: `{"type":"step","data":{"a":NaN}}`, err: syntax},
		{name: "two values", text: `{"type":"state"}{"type":"state"}`, err: syntax},
		{name: "a tail", text: `{"type":"state"} x`, err: syntax},
		{name: "type twice", text: `{"type":"state","type":"step"}`, err: syntax},
		{name: "type twice, once escaped", text: `{"type":"state","t\u0079pe":"step"}`, err: syntax},
		{name: "a key twice in data", text: `{"type":"step","data":{"a":1,"a":2}}`, err: syntax},
		{name: "a key twice in an unknown key", text: `{"type":"step","x":{"a":1,"a":2}}`, err: syntax},
		{name: "invalid UTF-8 in data", text: "{\"type\":\"step\",\"data\":{\"a\":\"\xff\"}}", err: syntax},
		{name: "invalid UTF-8 in a key", text: "{\"\xff\":1}", err: syntax},
		{name: "half a surrogate pair", text: `{"type":"step","data":{"a":"\ud800"}}`, err: syntax},
		{name: "byte order mark", text: "\ufeff{}", err: syntax},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := wire.ParseRequest([]byte(test.text))
			switch test.err {
			case notObject:
				if !errors.Is(err, wire.ErrNotObject) {
					t.Fatalf("got %v, want %v", err, wire.ErrNotObject)
				}
				return
			case syntax:
				if err == nil || errors.Is(err, wire.ErrNotObject) {
					t.Fatalf("got %v, want a syntax error", err)
				}
				return
			}
			var extra []string
			for _, m := range req.Extra {
				extra = append(extra, m.Name+"="+string(m.Value))
			}
			if err != nil || req.Type != test.typ || string(req.Data) != test.data || strings.Join(extra, " ") != test.extra {
				t.Errorf("got %q, data %s, extra %q, %v", req.Type, req.Data, extra, err)
			}
			if (req.Data == nil) != (test.data == "") {
				t.Errorf("data is nil: %v", req.Data == nil)
			}
		})
	}
}

// A server reuses the buffer of a message while its data is still in use.
func TestParseRequestCopies(t *testing.T) {
	text := []byte(`{"type":"step","data":{"message":"hi"},"extra":"x"}`)
	req, err := wire.ParseRequest(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		text[i] = '#'
	}
	if req.Type != "step" || string(req.Data) != `{"message":"hi"}` || string(req.Extra[0].Value) != `"x"` {
		t.Errorf("got %+v after the text was overwritten", req)
	}
}

// A server takes the data of a usual step without parsing the frame: what comes
// back is one JSON value if, and only if, the frame is that step.
func TestStepData(t *testing.T) {
	for _, test := range []struct {
		name, frame string
		want        string
		ok          bool
	}{
		{"our client's", `{"type":"step","data":{"message":"hi"}}`, `{"message":"hi"}`, true},
		{"the Python client's", `{"type": "step", "data": {"message": "hi", "metadata": {}}}`, `{"message": "hi", "metadata": {}}`, true},
		{"null data", `{"type":"step","data":null}`, `null`, true},
		{"a key behind the data", `{"type":"step","data":{},"extra":1}`, `{},"extra":1`, true},
		{"no data", `{"type":"step","data":}`, ``, true},
		{"two frames", `{"type":"step","data":{}}{"type":"step","data":{}}`, `{}}{"type":"step","data":{}`, true},
		{"other spaces", `{ "type":"step","data":{}}`, ``, false},
		{"a newline at the end", `{"type":"step","data":{}}` + "\n", ``, false},
		{"half a frame", `{"type":"step","data":{"a":[1`, ``, false},
		{"the opening alone", `{"type":"step","data":`, ``, false},
		{"data first", `{"data":{},"type":"step"}`, ``, false},
		{"another type", `{"type":"reset","data":{}}`, ``, false},
		{"nothing", ``, ``, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := wire.StepData([]byte(test.frame))
			if ok != test.ok || string(got) != test.want {
				t.Errorf("got %s, %v, want %s, %v", got, ok, test.want, test.ok)
			}
			if !ok {
				return
			}
			req, err := wire.ParseRequest([]byte(test.frame))
			step := err == nil && req.Type == wire.TypeStep && req.Extra == nil && string(req.Data) == string(got)
			if step != got.IsValid() {
				t.Errorf("%s is one value: %v, but the frame is %+v, %v", got, got.IsValid(), req, err)
			}
		})
	}
}

type (
	textAction   struct{ Text string }
	pointerOnly  struct{ n int }
	secretAction struct{ Token string }
)

func (a textAction) MarshalJSON() ([]byte, error) {
	return []byte(` {"text" : "` + a.Text + `"} `), nil
}
func (a *pointerOnly) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]int{"pointer": a.n})
}
func (secretAction) MarshalJSON() ([]byte, error) { return nil, errors.New("no token") }

func TestAppendFrame(t *testing.T) {
	type nan struct {
		Speed float64 `json:"speed"`
	}
	for _, test := range []struct {
		name string
		data any
		want string // the data, or part of the error when it does not begin with a brace
	}{
		{"map", map[string]any{"b": 1, "a": nil}, `{"a":null,"b":1}`},
		{"struct", struct{ A, B int }{1, 2}, `{"A":1,"B":2}`},
		{"pointer", &struct{ A int }{1}, `{"A":1}`},
		{"raw object, as it is", json.RawMessage(`{"a" : 1.50}`), `{"a" : 1.50}`},
		{"raw object in a pointer", new(json.RawMessage(`{"a" : 1.50}`)), `{"a":1.50}`},
		{"marshaler", textAction{"hi"}, `{"text":"hi"}`},
		{"marshaler on the pointer", &pointerOnly{3}, `{"pointer":3}`},
		{"markup is not escaped", map[string]string{"html": "<a&b>\u2028"}, "{\"html\":\"<a&b>\u2028\"}"},
		{"a number of many digits", map[string]any{"n": json.Number("12345678901234567890.10")}, `{"n":12345678901234567890.10}`},

		{"nil", nil, "JSON null"},
		{"nil map", map[string]any(nil), "JSON null"},
		{"nil pointer", (*textAction)(nil), "JSON null"},
		{"list", []int{1}, "[]int encodes as a JSON array"},
		{"string", "hi", "string encodes as a JSON string"},
		{"number", 1.5, "JSON number"},
		{"boolean", true, "JSON boolean"},
		{"raw list", json.RawMessage(`[1]`), "not a JSON object"},
		{"raw rubbish", json.RawMessage(`{"a":`), "not a JSON object"},
		{"raw nothing", json.RawMessage(nil), "not a JSON object"},
		{"raw object with a key twice", json.RawMessage(`{"a":1,"a":2}`), "not a JSON object"},
		{"NaN", nan{math.NaN()}, "NaN"},
		{"infinity", nan{math.Inf(1)}, "+Inf"},
		{"NaN in a map", map[string]any{"speed": math.NaN()}, "NaN"},
		{"a number that is none", map[string]any{"n": json.Number("1x")}, "1x"},
		{"invalid UTF-8", map[string]any{"s": "\xff"}, "UTF-8"},
		{"marshaler that fails", secretAction{"s3cret"}, "no token"},
		{"channel", map[string]any{"c": make(chan int)}, "chan int"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var buf bytes.Buffer
			buf.WriteString("before ")
			err := wire.AppendFrame(&buf, wire.TypeStep, test.data)
			if strings.HasPrefix(test.want, "{") {
				if want := `before {"type":"step","data":` + test.want + `}`; err != nil || buf.String() != want {
					t.Errorf("got %s, %v, want %s", &buf, err, want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %s, %v, want an error with %q", &buf, err, test.want)
			}
		})
	}
}

func TestLargeBuffersAreNotKept(t *testing.T) {
	for range 100 { // the pool drops at random under the race detector
		large := wire.GetBuffer()
		large.Grow(4<<20 + 1)
		wire.PutBuffer(large)
		next := wire.GetBuffer()
		if next.Cap() > 4<<20 {
			t.Fatalf("a buffer of %d bytes came back", next.Cap())
		}
	}
}

func TestBuffersComeBackEmpty(t *testing.T) {
	wire.PutBuffer(nil) // as after a failed read
	reused := false
	for range 100 {
		b := wire.GetBuffer()
		if b.Len() != 0 {
			t.Fatalf("buffer has %q in it", b)
		}
		reused = reused || b.Cap() > 0
		b.WriteString("one reply")
		wire.PutBuffer(b)
	}
	if !reused {
		t.Error("no buffer was ever used again")
	}
}

func TestDetachedBytesStay(t *testing.T) {
	b := wire.GetBuffer()
	b.WriteString("first")
	kept := wire.Detach(b)
	for range 100 {
		next := wire.GetBuffer()
		next.WriteString("other")
		wire.PutBuffer(next)
	}
	if string(kept) != "first" {
		t.Errorf("got %q, want %q", kept, "first")
	}
}

func TestEndsSession(t *testing.T) {
	for code, want := range map[string]bool{
		wire.CodeInvalidJSON: false, wire.CodeUnknownType: false, wire.CodeValidation: false, wire.CodeExecution: false,
		wire.CodeCapacityReached: true, wire.CodeFactory: true, wire.CodeSession: true, "": false, "NEW": false,
	} {
		if got := wire.EndsSession(code); got != want {
			t.Errorf("%q: got %v, want %v", code, got, want)
		}
	}
}
