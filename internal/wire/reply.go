package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// prefixes are the openings that the peer's serializer and ours write. They make
// the type of nearly every frame known without parsing it.
var prefixes = []struct {
	typ    string
	prefix []byte
}{
	{TypeObservation, []byte(`{"type":"observation",`)},
	{TypeState, []byte(`{"type":"state",`)},
	{TypeMCP, []byte(`{"type":"mcp",`)},
	{TypeError, []byte(`{"type":"error",`)},
}

// ReplyType returns the type of a server's frame without decoding its data, or an
// error that says what the frame is instead. A frame that opens with its type may
// still be malformed further on; decoding it finds that.
func ReplyType(b []byte) (string, error) {
	for i := range prefixes {
		if bytes.HasPrefix(b, prefixes[i].prefix) {
			return prefixes[i].typ, nil
		}
	}
	var head struct {
		Type *string `json:"type,case:strict"`
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), options)
	if kind := dec.PeekKind(); kind != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return "", fmt.Errorf("frame is not JSON: %w", err)
		}
		return "", fmt.Errorf("frame is a JSON %s, want an object", kindName(kind))
	}
	if err := unmarshal(b, &head, Float64); err != nil {
		return "", fmt.Errorf("frame is malformed: %w", err)
	}
	if head.Type == nil {
		return "", errors.New("frame has no type")
	}
	return *head.Type, nil
}

// Observation is the data of an observation frame.
type Observation[O any] struct {
	Observation O
	Reward      *float64
	Done        bool
	Metadata    map[string]any
}

// DecodeObservation decodes an observation frame in one pass. O's own JSON rules
// apply to the observation; a missing or null observation is an error.
func DecodeObservation[O any](b []byte, n Numbers) (Observation[O], error) {
	if o, ok := decodeUsual[O](b, n); ok {
		return o, nil
	}
	var f observationFrame[O]
	if err := unmarshal(b, &f, n); err != nil {
		return Observation[O]{}, err
	}
	if f.Data == nil {
		return Observation[O]{}, errors.New("observation frame has no data")
	}
	if !f.Data.Observation.set {
		return Observation[O]{}, errors.New("observation is missing or null")
	}
	return Observation[O]{f.Data.Observation.v, f.Data.Reward.v, f.Data.Done, f.Data.Metadata}, nil
}

// The protocol's own names are matched as they are written, users' by the rules of
// encoding/json: "Reward" is a key that the protocol does not know.
type observationFrame[O any] struct {
	Data *struct {
		Observation required[O]    `json:"observation,case:strict"`
		Reward      reward         `json:"reward,case:strict"`
		Done        bool           `json:"done,case:strict"`
		Metadata    map[string]any `json:"metadata,case:strict"`
	} `json:"data,case:strict"`
}

// DecodeState decodes the data of a state frame in one pass; data that is missing
// or null is an error.
func DecodeState[S any](b []byte, n Numbers) (S, error) {
	var f struct {
		Data required[S] `json:"data,case:strict"`
	}
	if err := unmarshal(b, &f, n); err != nil {
		return f.Data.v, err
	}
	if !f.Data.set {
		return f.Data.v, errors.New("state frame has no data")
	}
	return f.Data.v, nil
}

// Data returns a copy of a frame's undecoded data, which may be null.
func Data(b []byte) (jsontext.Value, error) {
	var f struct {
		Data jsontext.Value `json:"data,case:strict"`
	}
	if err := unmarshal(b, &f, Float64); err != nil {
		return nil, err
	}
	if f.Data == nil {
		return nil, errors.New("frame has no data")
	}
	return f.Data, nil
}

// Error is the data of an error frame. Details holds every other key.
type Error struct {
	Code    string
	Message string
	Details map[string]any
}

// DecodeError decodes an error frame. It never fails on well-formed JSON: a
// server that breaks the shape is still saying that the call did not succeed.
func DecodeError(b []byte) (Error, error) {
	var f struct {
		Data jsontext.Value `json:"data,case:strict"`
	}
	if err := unmarshal(b, &f, Float64); err != nil {
		return Error{}, err
	}
	var data map[string]any
	if unmarshal(f.Data, &data, Float64) != nil {
		return Error{Message: string(f.Data)}, nil //nolint:nilerr // well-formed data of another shape
	}
	e := Error{Details: data}
	if s, ok := data["code"].(string); ok {
		e.Code = s
		delete(data, "code")
	}
	if s, ok := data["message"].(string); ok {
		e.Message = s
		delete(data, "message")
	}
	return e, nil
}

// required is a value that must be present and not null: a zero observation in
// place of a missing one would be a wrong result.
type required[T any] struct {
	v   T
	set bool
}

func (r *required[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == 'n' {
		return dec.SkipValue()
	}
	r.set = true
	return json.UnmarshalDecode(dec, &r.v)
}

// reward takes what servers send for a reward: a number, a boolean or null.
type reward struct{ v *float64 }

func (r *reward) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case 'n':
		r.v = nil
	case 't':
		one := 1.0
		r.v = &one
	case 'f':
		r.v = new(float64)
	case '0':
		f, err := strconv.ParseFloat(tok.String(), 64)
		if err != nil {
			return errors.Unwrap(err) // what surrounds it names a Go function
		}
		r.v = &f
	default:
		return fmt.Errorf("reward is a JSON %s, want a number, a boolean or null", kindName(tok.Kind()))
	}
	return nil
}

// Excerpt returns the beginning of a frame as one line of an error message.
func Excerpt(b []byte) string {
	const limit = 120
	if len(b) <= limit {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(string(b[:limit]), "\uFFFD"), len(b))
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
