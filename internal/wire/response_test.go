package wire_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/internal/wire"
)

// ownMetadata has the member that the encoder would add.
type ownMetadata struct {
	Metadata map[string]any `json:"metadata"`
	Text     string         `json:"text"`
}

// spelledMetadata encodes the same member with an escape in its name.
type spelledMetadata struct{}

func (spelledMetadata) MarshalJSON() ([]byte, error) {
	return []byte(`{"\u006detadata":{"own":1}}`), nil
}

func TestAppendResult(t *testing.T) {
	some := map[string]any{"a": 1}
	for _, test := range []struct {
		name        string
		observation any
		metadata    map[string]any
		want        string // in front of ,"reward":null,"done":false
		beside      string
	}{
		{"metadata is always in the observation", echo{"hi", 2}, nil, `{"metadata":{},"echoed":"hi","length":2}`, ""},
		{"empty metadata is not beside reward", echo{"hi", 2}, map[string]any{}, `{"metadata":{},"echoed":"hi","length":2}`, ""},
		{"other metadata is in both places", echo{"hi", 2}, some, `{"metadata":{"a":1},"echoed":"hi","length":2}`, `{"a":1}`},
		{"empty observation", struct{}{}, some, `{"metadata":{"a":1}}`, `{"a":1}`},
		{"empty map", map[string]any{}, nil, `{"metadata":{}}`, ""},
		{"pointer", &echo{"hi", 2}, nil, `{"metadata":{},"echoed":"hi","length":2}`, ""},
		{"raw JSON with spaces", json.RawMessage(" {\n \"n\" : 1.0 } "), some, `{"metadata":{"a":1},"n":1.0}`, `{"a":1}`},
		{"raw empty object with spaces", json.RawMessage(" { } "), nil, `{"metadata":{}}`, ""},
		{"the type's own metadata is not doubled", ownMetadata{map[string]any{"own": 1}, "x"}, some, `{"metadata":{"own":1},"text":"x"}`, `{"a":1}`},
		{"its own null neither", ownMetadata{nil, "x"}, nil, `{"metadata":null,"text":"x"}`, ""},
		{"its own in a map", map[string]any{"metadata": 5, "z": 1}, nil, `{"metadata":5,"z":1}`, ""},
		{"its own spelled with an escape", spelledMetadata{}, some, `{"\u006detadata":{"own":1}}`, `{"a":1}`},
		{"the word as a value", echo{"metadata", 8}, nil, `{"metadata":{},"echoed":"metadata","length":8}`, ""},
		{"the word deeper down", map[string]any{"in": map[string]any{"metadata": 1}}, nil, `{"metadata":{},"in":{"metadata":1}}`, ""},
		{"the word in another case", map[string]any{"Metadata": 1}, nil, `{"metadata":{},"Metadata":1}`, ""},
		{"a backslash in a value", map[string]any{"s": `\`}, nil, `{"metadata":{},"s":"\\"}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := `{"observation":` + test.want + `,"reward":null,"done":false`
			if test.beside != "" {
				want += `,"metadata":` + test.beside
			}
			want += "}"
			var data, frame bytes.Buffer
			frame.WriteString("before ")
			if err := wire.AppendResult(&data, test.observation, nil, false, test.metadata); err != nil || data.String() != want {
				t.Errorf("result: got %s, %v, want %s", &data, err, want)
			}
			want = `before {"type":"observation","data":` + want + `}`
			if err := wire.AppendObservation(&frame, test.observation, nil, false, test.metadata); err != nil || frame.String() != want {
				t.Errorf("frame: got %s, %v, want %s", &frame, err, want)
			}
		})
	}
}

// Each row is what Python's json module writes for the same float.
func TestAppendReward(t *testing.T) {
	third, seven := 1.0, 0.1
	third, seven = third/3, seven*7
	for _, test := range []struct {
		reward *float64
		want   string
	}{
		{nil, "null"},
		{new(1.0), "1.0"},
		{new(0.0), "0.0"},
		{new(math.Copysign(0, -1)), "-0.0"},
		{new(-3.0), "-3.0"},
		{new(0.2), "0.2"},
		{&seven, "0.7000000000000001"},
		{&third, "0.3333333333333333"},
		{new(1234567.5), "1234567.5"},
		{new(0.0001), "0.0001"},
		{new(0.00001), "1e-05"},
		{new(-0.000012), "-1.2e-05"},
		{new(9007199254740993.0), "9007199254740992.0"},
		{new(1e15), "1000000000000000.0"},
		{new(1e16), "1e+16"},
		{new(1.5e300), "1.5e+300"},
		{new(math.MaxFloat64), "1.7976931348623157e+308"},
		{new(math.SmallestNonzeroFloat64), "5e-324"},
	} {
		var buf bytes.Buffer
		err := wire.AppendResult(&buf, struct{}{}, test.reward, true, nil)
		if want := `{"observation":{"metadata":{}},"reward":` + test.want + `,"done":true}`; err != nil || buf.String() != want {
			t.Errorf("got %s, %v, want %s", &buf, err, want)
		}
	}
}

func TestAppendRefusesWhatJSONCannotSay(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		name        string
		observation any
		reward      *float64
		metadata    map[string]any
		want        string
	}{
		{"NaN reward", struct{}{}, &nan, nil, "reward is NaN"},
		{"infinite reward", struct{}{}, new(math.Inf(1)), nil, "reward is +Inf"},
		{"negative infinite reward", struct{}{}, new(math.Inf(-1)), nil, "reward is -Inf"},
		{"NaN in the observation", map[string]any{"x": []float64{nan}}, nil, nil, "NaN"},
		{"NaN in the metadata", struct{}{}, nil, map[string]any{"x": nan}, "NaN"},
		{"list", []int{1}, nil, nil, "[]int encodes as a JSON array"},
		{"nil", nil, nil, nil, "JSON null"},
		{"nil map", map[string]any(nil), nil, nil, "JSON null"},
		{"string", "metadata", nil, nil, "JSON string"},
		{"function", struct{ F func() }{}, nil, nil, "func()"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var buf bytes.Buffer
			err := wire.AppendObservation(&buf, test.observation, test.reward, false, test.metadata)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %s, %v, want an error with %q", &buf, err, test.want)
			}
		})
	}
}

func TestAppendError(t *testing.T) {
	for _, test := range []struct {
		name string
		e    wire.Error
		want string
	}{
		{"code and message", wire.Error{Code: wire.CodeExecution, Message: "boom"}, `{"code":"EXECUTION_ERROR","message":"boom"}`},
		{"details", wire.Error{wire.CodeCapacityReached, "full", map[string]any{"max_sessions": 1, "active_sessions": 1}},
			`{"active_sessions":1,"code":"CAPACITY_REACHED","max_sessions":1,"message":"full"}`},
		{"details do not overwrite", wire.Error{wire.CodeExecution, "boom", map[string]any{"code": "X", "message": "Y"}}, `{"code":"EXECUTION_ERROR","message":"boom"}`},
		{"markup", wire.Error{Code: wire.CodeExecution, Message: `<a href="x">`}, `{"code":"EXECUTION_ERROR","message":"<a href=\"x\">"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			details := len(test.e.Details)
			var buf bytes.Buffer
			if err := wire.AppendError(&buf, test.e); err != nil || buf.String() != `{"type":"error","data":`+test.want+`}` {
				t.Errorf("got %s, %v, want data %s", &buf, err, test.want)
			}
			if len(test.e.Details) != details {
				t.Errorf("the caller's details became %v", test.e.Details)
			}
		})
	}
	var buf bytes.Buffer
	if err := wire.AppendError(&buf, wire.Error{Details: map[string]any{"x": make(chan int)}}); err == nil {
		t.Errorf("got %s, want an error", &buf)
	}
}
