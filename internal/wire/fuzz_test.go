package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openenv-go/openenv/internal/wire"
)

// seedReplies adds the recorded replies and the broken ones of the tables.
func seedReplies(f *testing.F) {
	for _, frame := range replies(f) {
		f.Add(frame)
	}
	for _, text := range []string{
		``, `{`, `[]`, `null`, `{"type":5}`, `{"type":"state"}x`, `{"type":"state","type":"error"}`,
		`{"data":{"done":true,"reward":true,"observation":{"N":[1,"x",null],"m":{"a":1.50}}},"type":"observation"}`,
		`{"type":"observation","data":{"observation":{"n":1e400},"reward":1e999}}`,
		`{"type":"observation","data":{"observation":null,"reward":NaN}}`,
		`{"type":"observation","data":{"observation":{"metadata":{"k":"v"},"a":"\ud800"},"metadata":{"k":"v"}}}`,
		"{\"type\":\"observation\",\"data\":{\"observation\":{\"text\":\"\xff\"}}}",
		`{"type":"error","data":{"code":7,"message":null,"x":[{}]}}`, `{"type":"error","data":"boom"}`, `{"type":"error"}`,
	} {
		f.Add([]byte(text))
	}
}

// strict says whether b is JSON, with no key twice and no invalid UTF-8.
func strict(b []byte) bool { return jsontext.Value(b).IsValid() }

// member returns a member of an object, nil if there is none.
func member(t *testing.T, object []byte, name string) json.RawMessage {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		t.Fatalf("accepted, but encoding/json says %v", err)
	}
	return members[name]
}

func FuzzReplyType(f *testing.F) {
	seedReplies(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		typ, err := wire.ReplyType(b)
		if !strict(b) {
			return // the type of a frame that is malformed further on may be told
		}
		var want struct{ Type *string }
		if jsontext.Value(b).Kind() == '{' {
			if raw := member(t, b, "type"); raw != nil && json.Unmarshal(raw, &want.Type) != nil {
				want.Type = nil
			}
		}
		if want.Type == nil && err == nil || want.Type != nil && (err != nil || typ != *want.Type) {
			t.Errorf("got %q, %v", typ, err)
		}
	})
}

// typedObservation has the kinds of fields that environments use.
type typedObservation struct {
	Text    string             `json:"text"`
	N       []any              `json:"n"`
	Count   int                `json:"count"`
	Exact   json.Number        `json:"exact"`
	Scores  map[string]float64 `json:"scores"`
	Raw     json.RawMessage    `json:"raw"`
	Pixels  []byte             `json:"pixels"`
	Next    *typedObservation  `json:"next"`
	Pair    pair               `json:"pair"`
	Visible bool               `json:"visible,omitempty"`
}

func FuzzDecodeObservation(f *testing.F) {
	seedReplies(f)
	f.Add([]byte(`{"type":"observation","data":{"observation":{"a":"x"},"reward":-1.5,"done":false}}`))
	f.Add([]byte(`{"data":{"observation":{"text":"x","n":[],"count":1,"exact":1.50,"scores":{"a":1e-7},"raw":{"b": 1},"pixels":"aGk=","next":{"n":null},"pair":[1,2],"visible":true}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkObservation[map[string]any](t, b, wire.Float64)
		checkObservation[map[string]any](t, b, wire.JSONNumber)
		checkObservation[typedObservation](t, b, wire.Float64)

		short, err := wire.DecodeObservation[map[string]any](b, wire.Float64)
		long, longErr := wire.DecodeObservation[map[string]any](append([]byte(" "), b...), wire.Float64)
		if (err == nil) != (longErr == nil) || !reflect.DeepEqual(short, long) {
			t.Fatalf("two ways: %+v, %v and %+v, %v: %q", short, err, long, longErr, b)
		}
	})
}

// checkObservation decodes b and, when that succeeds, wants what encoding/json
// makes of the observation, and the same value after a way to the wire and back.
func checkObservation[O any](t *testing.T, b []byte, n wire.Numbers) {
	t.Helper()
	got, err := wire.DecodeObservation[O](b, n)
	if err != nil {
		return
	}
	if !strict(b) {
		t.Fatalf("accepted: %q", b)
	}
	var want O
	dec := json.NewDecoder(bytes.NewReader(member(t, member(t, b, "data"), "observation")))
	if n == wire.JSONNumber {
		dec.UseNumber()
	}
	if err := dec.Decode(&want); err != nil {
		t.Fatalf("accepted, but encoding/json says %v: %q", err, b)
	}
	if !reflect.DeepEqual(got.Observation, want) {
		t.Fatalf("got %+v, encoding/json says %+v", got.Observation, want)
	}

	once := throughTheWire(t, got, n)
	if twice := throughTheWire(t, once, n); !reflect.DeepEqual(twice, once) {
		t.Fatalf("not stable: first %+v, then %+v", once, twice)
	}
	if once.Done != got.Done || !reflect.DeepEqual(once.Reward, got.Reward) ||
		len(got.Metadata) > 0 && !reflect.DeepEqual(once.Metadata, got.Metadata) {
		t.Fatalf("got %+v after the wire, want %+v", once, got)
	}
	if raw, ok := any(once.Observation).(map[string]any); ok {
		if _, had := any(got.Observation).(map[string]any)["metadata"]; !had {
			delete(raw, "metadata") // added by the encoder
		}
		if !reflect.DeepEqual(raw, any(got.Observation)) {
			t.Fatalf("got %+v after the wire, want %+v", raw, got.Observation)
		}
	}
}

func throughTheWire[O any](t *testing.T, o wire.Observation[O], n wire.Numbers) wire.Observation[O] {
	t.Helper()
	var buf bytes.Buffer
	if err := wire.AppendObservation(&buf, o.Observation, o.Reward, o.Done, o.Metadata); err != nil {
		t.Fatalf("decoded, but does not encode: %v", err)
	}
	if typ, err := wire.ReplyType(buf.Bytes()); err != nil || typ != wire.TypeObservation {
		t.Fatalf("own frame has type %q, %v", typ, err)
	}
	back, err := wire.DecodeObservation[O](buf.Bytes(), n)
	if err != nil {
		t.Fatalf("own frame does not decode: %v: %s", err, &buf)
	}
	return back
}

func FuzzDecodeState(f *testing.F) {
	seedReplies(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		checkState[map[string]any](t, b)
		checkState[episode](t, b)
	})
}

func checkState[S any](t *testing.T, b []byte) {
	t.Helper()
	got, err := wire.DecodeState[S](b, wire.Float64)
	if err != nil {
		return
	}
	if !strict(b) {
		t.Fatalf("accepted: %q", b)
	}
	var want S
	if err := json.Unmarshal(member(t, b, "data"), &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, encoding/json says %+v, %v", got, want, err)
	}
	var buf bytes.Buffer
	if err := wire.AppendFrame(&buf, wire.TypeState, got); err != nil {
		t.Fatalf("decoded, but does not encode: %v", err)
	}
	if back, err := wire.DecodeState[S](buf.Bytes(), wire.Float64); err != nil || !reflect.DeepEqual(back, got) {
		t.Fatalf("got %+v, %v after the wire, want %+v", back, err, got)
	}
}

func FuzzDecodeError(f *testing.F) {
	seedReplies(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := wire.DecodeError(b)
		if (err == nil) != (strict(b) && (jsontext.Value(b).Kind() == '{' || jsontext.Value(b).Kind() == 'n')) {
			t.Fatalf("got %+v, %v from %q", got, err, b)
		}
		if err != nil || got.Details["code"] != nil || got.Details["message"] != nil {
			return
		}
		var buf bytes.Buffer
		if err := wire.AppendError(&buf, got); err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		delete(got.Details, "code") // a null says as much as no member
		delete(got.Details, "message")
		back, err := wire.DecodeError(buf.Bytes())
		if err != nil || back.Code != got.Code || back.Message != got.Message ||
			len(back.Details)+len(got.Details) > 0 && !reflect.DeepEqual(back.Details, got.Details) {
			t.Fatalf("got %+v, %v after the wire, want %+v", back, err, got)
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	for _, name := range []string{"echo-ws", "echo-ws-close", "mcp-ws", "mcp-socket"} {
		for _, x := range recorded(f, name) {
			f.Add([]byte(x.Send))
		}
	}
	for _, text := range []string{``, `{`, `[]`, `"x"`, `null`, `1`, `{"type":5}`, `{}{}`, `{"a":1,"a":2}`, "{\"\xff\":1}", `{"t\u0079pe":"\ud800"}`, ` { "x" : [ ] } `} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := bytes.Clone(b)
		req, err := wire.ParseRequest(b)
		if !bytes.Equal(b, kept) {
			t.Fatal("the text was changed")
		}
		valid, kind := strict(b), jsontext.Value(b).Kind()
		if (err == nil) != (valid && kind == '{') {
			t.Fatalf("got %+v, %v from %q", req, err, b)
		}
		if valid && kind != '{' && !errors.Is(err, wire.ErrNotObject) {
			t.Fatalf("got %v, want %v", err, wire.ErrNotObject)
		}
		if err != nil {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, m := range req.Extra {
			names[m.Name] = true
			if !bytes.Equal(bytes.TrimSpace(want[m.Name]), m.Value) {
				t.Errorf("%q: got %s, want %s", m.Name, m.Value, want[m.Name])
			}
		}
		if len(names) != len(req.Extra) || names["type"] || names["data"] {
			t.Errorf("extra members %v", slices.Sorted(maps.Keys(names)))
		}
		var typ string
		if raw, ok := want["type"]; ok {
			names["type"] = true
			var text *string
			if json.Unmarshal(raw, &text) == nil && text != nil {
				typ = *text
			}
		}
		if raw, ok := want["data"]; ok != (req.Data != nil) || !bytes.Equal(bytes.TrimSpace(raw), req.Data) {
			t.Errorf("data: got %s, want %s", req.Data, raw)
		} else if ok {
			names["data"] = true
		}
		if req.Type != typ || len(names) != len(want) {
			t.Errorf("got %+v from %s", req, b)
		}
	})
}
