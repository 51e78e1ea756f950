package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/wire"
)

func TestReplyType(t *testing.T) {
	for _, test := range []struct {
		name, frame string
		want        string // the type, or part of the error
		err         bool
	}{
		{"the peer's opening", `{"type":"observation","data":{}}`, "observation", false},
		{"state", `{"type":"state","data":{}}`, "state", false},
		{"mcp", `{"type":"mcp","data":{}}`, "mcp", false},
		{"error", `{"type":"error","data":{}}`, "error", false},
		{"spaces", "{ \"type\" : \"error\" }\n", "error", false},
		{"data before type", `{"data":{"type":"state"},"type":"observation"}`, "observation", false},
		{"type alone", `{"type":"observation"}`, "observation", false},
		{"a type of tomorrow", `{"type":"event","data":{}}`, "event", false},
		{"a type that begins like another", `{"type":"state2","data":{}}`, "state2", false},
		{"unknown keys", `{"v":2,"type":"state"}`, "state", false},

		{"no type", `{"data":{}}`, "no type", true},
		{"type in another case", `{"Type":"state"}`, "no type", true},
		{"type is null", `{"type":null}`, "no type", true},
		{"type is a number", `{"type":5}`, "malformed", true},
		{"type twice", `{"data":1,"type":"state","type":"error"}`, "malformed", true},
		{"list", `[]`, "a JSON array", true},
		{"string", `"state"`, "a JSON string", true},
		{"null", `null`, "a JSON null", true},
		{"number", ` 7`, "a JSON number", true},
		{"boolean", `false`, "a JSON boolean", true},
		{"nothing", ``, "not JSON", true},
		{"HTML", `<html>`, "not JSON", true},
		{"half a frame", `{"type"`, "malformed", true},
		{"two frames", `{"data":1,"type":"state"}{"type":"state"}`, "malformed", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.ReplyType([]byte(test.frame))
			if !test.err && (err != nil || got != test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
			if test.err && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %q, %v, want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestDecodeReward(t *testing.T) {
	for _, test := range []struct {
		text string
		want string // the number, null, or part of the error
	}{
		{`true`, "1"},
		{`false`, "0"},
		{`0`, "0"},
		{`-3`, "-3"},
		{`0.2`, "0.2"},
		{`0.7000000000000001`, "0.7000000000000001"},
		{`1e-7`, "1e-07"},
		{`-0.0`, "-0"},
		{`12345678901234567890`, "1.2345678901234567e+19"},
		{`null`, "null"},
		{`"1"`, "want a number, a boolean or null"},
		{`"NaN"`, "want a number, a boolean or null"},
		{`[1]`, "want a number, a boolean or null"},
		{`{}`, "want a number, a boolean or null"},
		{`1e999`, "out of range"},
		{`NaN`, "invalid character 'N'"},
		{`Infinity`, "invalid character 'I'"},
		{`-Infinity`, "invalid character 'I'"},
		{`.5`, "invalid character '.'"},
		{`01`, "invalid character '1'"},
		{``, "invalid character"},
	} {
		for _, numbers := range []wire.Numbers{wire.Float64, wire.JSONNumber} {
			frame := `{"type":"observation","data":{"observation":{},"reward":` + test.text + `,"done":true}}`
			res, err := wire.DecodeObservation[map[string]any]([]byte(frame), numbers)
			var got string
			switch {
			case err != nil:
				got = err.Error()
			case res.Reward == nil:
				got = "null"
			default:
				got = strconv.FormatFloat(*res.Reward, 'g', -1, 64)
			}
			if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
				t.Errorf("reward %s: got %s, want %s", test.text, got, test.want)
			}
			if err == nil && !res.Done {
				t.Errorf("reward %s: what follows it was not read", test.text)
			}
		}
	}
}

func TestDecodeObservation(t *testing.T) {
	one := map[string]any{"n": 1.0}
	for _, test := range []struct {
		name, frame string
		want        wire.Observation[map[string]any]
		err         string
	}{
		{name: "three keys of an older server", frame: `{"type":"observation","data":{"observation":{"n":1},"reward":0.5,"done":true}}`,
			want: wire.Observation[map[string]any]{one, new(0.5), true, nil}},
		{name: "metadata", frame: `{"type":"observation","data":{"observation":{"n":1},"reward":null,"done":false,"metadata":{"n":1}}}`,
			want: wire.Observation[map[string]any]{one, nil, false, one}},
		{name: "null metadata", frame: `{"type":"observation","data":{"observation":{"n":1},"metadata":null}}`,
			want: wire.Observation[map[string]any]{Observation: one}},
		{name: "observation alone", frame: `{"type":"observation","data":{"observation":{"n":1}}}`,
			want: wire.Observation[map[string]any]{Observation: one}},
		{name: "empty observation", frame: `{"type":"observation","data":{"observation":{}}}`,
			want: wire.Observation[map[string]any]{Observation: map[string]any{}}},
		{name: "data before type", frame: `{"data":{"done":true,"reward":1,"observation":{"n":1}},"type":"observation"}`,
			want: wire.Observation[map[string]any]{one, new(1.0), true, nil}},
		{name: "unknown keys everywhere", frame: `{"v":[1],"type":"observation","data":{"info":{"a":{}},"observation":{"n":1},"truncated":false},"z":null}`,
			want: wire.Observation[map[string]any]{Observation: one}},
		{name: "the protocol's names in another case are unknown keys", frame: `{"Data":1,"data":{"Observation":[],"observation":{"n":1},"Reward":"x","DONE":5,"Metadata":7}}`,
			want: wire.Observation[map[string]any]{Observation: one}},

		{name: "no data", frame: `{"type":"observation"}`, err: "no data"},
		{name: "null data", frame: `{"type":"observation","data":null}`, err: "no data"},
		{name: "data is a list", frame: `{"type":"observation","data":[1]}`, err: `array into Go struct within "/data"`},
		{name: "no observation", frame: `{"type":"observation","data":{"reward":1,"done":false}}`, err: "observation is missing or null"},
		{name: "null observation", frame: `{"type":"observation","data":{"observation":null,"reward":1,"done":false}}`, err: "observation is missing or null"},
		{name: "observation is a list", frame: `{"type":"observation","data":{"observation":[1]}}`, err: `array into Go map[string]interface {} within "/data/observation"`},
		{name: "done is a string", frame: `{"type":"observation","data":{"observation":{},"done":"yes"}}`, err: `within "/data/done"`},
		{name: "metadata is a list", frame: `{"type":"observation","data":{"observation":{},"metadata":[]}}`, err: `within "/data/metadata"`},
		{name: "NaN deep inside", frame: `{"type":"observation","data":{"observation":{"a":[{"b":NaN}]}}}`, err: `within "/data/observation/a/0/b"`},
		{name: "a key twice", frame: `{"type":"observation","data":{"observation":{"a":1,"a":2}}}`, err: "duplicate"},
		{name: "observation twice", frame: `{"type":"observation","data":{"observation":{},"observation":{}}}`, err: "duplicate"},
		{name: "type twice", frame: `{"type":"observation","type":"error","data":{"observation":{}}}`, err: "duplicate"},
		{name: "invalid UTF-8", frame: "{\"type\":\"observation\",\"data\":{\"observation\":{\"a\":\"\xff\"}}}", err: "UTF-8"},
		{name: "half a frame", frame: `{"type":"observation","data":{"observation":{"a":`, err: "EOF"},
		{name: "a tail", frame: `{"type":"observation","data":{"observation":{}}}}`, err: "after top-level value"},
		{name: "nothing", frame: ``, err: "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.DecodeObservation[map[string]any]([]byte(test.frame), wire.Float64)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %+v, %v, want an error with %q", got, err, test.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

// celsius decodes itself, as encoding/json lets a type do.
type celsius struct{ degrees float64 }

func (c *celsius) UnmarshalJSON(b []byte) error {
	if string(b) == `"cold"` {
		return errors.New("cold is no temperature")
	}
	return json.Unmarshal(b, &c.degrees)
}

// whole decodes a complete observation itself.
type whole struct{ raw string }

func (w *whole) UnmarshalJSON(b []byte) error { w.raw = string(b); return nil }

// A frame of the usual spelling takes a shorter way; a blank in front sends the same
// frame the long way.
func TestDecodeObservationOfTheUsualSpelling(t *testing.T) {
	for _, frame := range []string{
		`{"type":"observation","data":{"observation":{"a":1},"reward":1.0,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":null,"done":true}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":-0.25,"done":true}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":1e-7,"done":true}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":true,"done":true}}`,
		`{"type":"observation","data":{"observation":{"a":",\"reward\":1,"},"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":{"reward":3,"done":false}},"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1,"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1}},"more":{"b":1,"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"observation":{"b":1},"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":1,"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":2,"done":false,"metadata":{"b":1}}}`,
		`{"type":"observation","data":{"observation":{"a":1,"a":2},"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":null,"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation": null,"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":,"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1} {},"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":7,"reward":2,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":01,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":1.,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":Inf,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":-,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":0x1,"done":false}}`,
		`{"type":"observation","data":{"observation":{"a":1},"reward":1` + strings.Repeat("0", 400) + `,"done":false}}`,
	} {
		got, err := wire.DecodeObservation[map[string]any]([]byte(frame), wire.Float64)
		want, wantErr := wire.DecodeObservation[map[string]any]([]byte(" "+frame), wire.Float64)
		if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v, %v", frame, got, err, want, wantErr)
		}
	}
}

func TestDecodeIntoUserTypes(t *testing.T) {
	type typed struct {
		Name  string          `json:"name"`
		Count json.Number     `json:"count"`
		Raw   json.RawMessage `json:"raw"`
		Heat  celsius         `json:"heat"`
		Any   any             `json:"any"`
		Skip  string          `json:"-"`
	}
	frame := []byte(`{"data":{"observation":{"NAME":"x","count":1.50,"raw":{"a": 1},"heat":21.5,"any":2.50,"Skip":"s","metadata":{}},"done":true}}`)
	got, err := wire.DecodeObservation[typed](frame, wire.Float64)
	want := typed{"x", "1.50", json.RawMessage(`{"a": 1}`), celsius{21.5}, 2.5, ""}
	if err != nil || !reflect.DeepEqual(got.Observation, want) {
		t.Errorf("got %+v, %v, want %+v", got.Observation, err, want)
	}

	self, err := wire.DecodeObservation[whole](frame, wire.Float64)
	if err != nil || !strings.HasPrefix(self.Observation.raw, `{"NAME":"x"`) || !strings.HasSuffix(self.Observation.raw, `"metadata":{}}`) || !self.Done {
		t.Errorf("self-decoding type: got %+v, %v", self, err)
	}

	pointer, err := wire.DecodeObservation[*typed](frame, wire.Float64)
	if err != nil || pointer.Observation == nil || pointer.Observation.Name != "x" {
		t.Errorf("pointer: got %+v, %v", pointer, err)
	}

	raw, err := wire.DecodeObservation[json.RawMessage]([]byte(`{"data":{"observation":{"n": 1.50}}}`), wire.Float64)
	if err != nil || string(raw.Observation) != `{"n": 1.50}` {
		t.Errorf("raw: got %s, %v", raw.Observation, err)
	}

	_, err = wire.DecodeObservation[typed]([]byte(`{"data":{"observation":{"heat":"cold"}}}`), wire.Float64)
	if err == nil || !strings.Contains(err.Error(), "cold is no temperature") || !strings.Contains(err.Error(), "/data/observation/heat") {
		t.Errorf("a type that refuses: got %v, want its reason and the place", err)
	}
	_, err = wire.DecodeObservation[typed]([]byte(`{"data":{"observation":{"count":"x"}}}`), wire.Float64)
	if err == nil || !strings.Contains(err.Error(), "/data/observation/count") {
		t.Errorf("a number that is none: got %v, want the place", err)
	}
}

func TestNumbersInRawMaps(t *testing.T) {
	frame := []byte(`{"data":{"observation":{"id":12345678901234567890,"list":[1.50,{"x":-0}],"s":"7"},"reward":0.10,"metadata":{"k":1.0}}}`)
	got, err := wire.DecodeObservation[map[string]any](frame, wire.JSONNumber)
	want := map[string]any{"id": json.Number("12345678901234567890"), "list": []any{json.Number("1.50"), map[string]any{"x": json.Number("-0")}}, "s": "7"}
	if err != nil || !reflect.DeepEqual(got.Observation, want) || got.Metadata["k"] != json.Number("1.0") || *got.Reward != 0.1 {
		t.Errorf("kept digits: got %+v, %v", got, err)
	}
	got, err = wire.DecodeObservation[map[string]any](frame, wire.Float64)
	if err != nil || got.Observation["id"] != 1.2345678901234567e19 || got.Metadata["k"] != 1.0 {
		t.Errorf("float64: got %+v, %v", got, err)
	}
	state, err := wire.DecodeState[map[string]any]([]byte(`{"data":{"n":1.50}}`), wire.JSONNumber)
	if err != nil || state["n"] != json.Number("1.50") {
		t.Errorf("state: got %v, %v", state, err)
	}
	var v any
	if err := wire.Unmarshal([]byte(`[1e400]`), &v, wire.JSONNumber); err != nil || fmt.Sprint(v) != "[1e400]" {
		t.Errorf("a number beyond float64: got %v, %v", v, err)
	}
	if err := wire.Unmarshal([]byte(`[1e400]`), &v, wire.Float64); err == nil {
		t.Errorf("a number beyond float64 as float64: got %v, want an error", v)
	}
}

func TestDecodeState(t *testing.T) {
	for _, test := range []struct {
		name, frame string
		want        episode
		err         string
	}{
		{name: "state", frame: `{"type":"state","data":{"episode_id":"e","step_count":3}}`, want: episode{"e", 3}},
		{name: "unknown keys", frame: `{"type":"state","data":{"episode_id":"e","board":[[0]]},"x":1}`, want: episode{"e", 0}},
		{name: "null members", frame: `{"data":{"episode_id":null,"step_count":1},"type":"state"}`, want: episode{"", 1}},
		{name: "no data", frame: `{"type":"state"}`, err: "no data"},
		{name: "null data", frame: `{"type":"state","data":null}`, err: "no data"},
		{name: "wrong type", frame: `{"type":"state","data":{"step_count":"3"}}`, err: "/data/step_count"},
		{name: "list", frame: `{"type":"state","data":[]}`, err: `within "/data"`},
		{name: "half a frame", frame: `{"type":"state","data":{`, err: "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.DecodeState[episode]([]byte(test.frame), wire.Float64)
			if test.err == "" && (err != nil || got != test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
			if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got %+v, %v, want an error with %q", got, err, test.err)
			}
		})
	}
}

func TestDecodeErrorKeepsWhatTheServerSaid(t *testing.T) {
	for _, test := range []struct {
		name, frame string
		want        wire.Error
	}{
		{"code and message", `{"type":"error","data":{"message":"boom","code":"EXECUTION_ERROR"}}`, wire.Error{Code: "EXECUTION_ERROR", Message: "boom"}},
		{"details", `{"data":{"active_sessions":1,"max_sessions":1,"message":"full","code":"CAPACITY_REACHED"},"type":"error"}`,
			wire.Error{"CAPACITY_REACHED", "full", map[string]any{"active_sessions": 1.0, "max_sessions": 1.0}}},
		{"no code", `{"type":"error","data":{"message":"boom"}}`, wire.Error{Message: "boom"}},
		{"code of another type", `{"type":"error","data":{"message":"boom","code":5}}`, wire.Error{Message: "boom", Details: map[string]any{"code": 5.0}}},
		{"data is a string", `{"type":"error","data":"boom"}`, wire.Error{Message: `"boom"`}},
		{"data is a list", `{"type":"error","data":[1]}`, wire.Error{Message: `[1]`}},
		{"null data", `{"type":"error","data":null}`, wire.Error{}},
		{"no data", `{"type":"error"}`, wire.Error{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.DecodeError([]byte(test.frame))
			if len(got.Details) == 0 {
				got.Details = nil
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
	for _, malformed := range []string{``, `{"type":"error","data":{`, `[]`, `{"data":{},"data":{}}`} {
		if got, err := wire.DecodeError([]byte(malformed)); err == nil {
			t.Errorf("%s: got %+v, want an error", malformed, got)
		}
	}
}

func TestData(t *testing.T) {
	text := []byte(`{"type":"mcp","data":{"id" : 1.0}}`)
	got, err := wire.Data(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	if string(got) != `{"id" : 1.0}` {
		t.Errorf("got %s, want a copy of the data as it was", got)
	}
	if got, err := wire.Data([]byte(`{"data":null}`)); err != nil || string(got) != "null" {
		t.Errorf("null: got %s, %v", got, err)
	}
	for _, bad := range []string{`{}`, `[]`, `{"Data":{}}`, `{"data":{`, ``} {
		if got, err := wire.Data([]byte(bad)); err == nil {
			t.Errorf("%s: got %s, want an error", bad, got)
		}
	}
}

func TestExcerptIsOneShortLine(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", `""`},
		{"a\nb\xff", `"a\nb\xff"`},
		{strings.Repeat("x", 120), `"` + strings.Repeat("x", 120) + `"`},
		{strings.Repeat("x", 121), `"` + strings.Repeat("x", 120) + `"… (121 bytes)`},
		{strings.Repeat("x", 119) + "é", `"` + strings.Repeat("x", 119) + `�"… (121 bytes)`},
	} {
		if got := wire.Excerpt([]byte(test.text)); got != test.want {
			t.Errorf("%q: got %s, want %s", test.text, got, test.want)
		}
	}
}
