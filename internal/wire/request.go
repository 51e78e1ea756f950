package wire

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// StateRequest and CloseRequest are the two frames that carry no data.
var (
	StateRequest = []byte(`{"type":"state"}`)
	CloseRequest = []byte(`{"type":"close"}`)
)

// AppendFrame appends the frame of the given type whose data is v encoded as
// JSON. A data value that is not an object is refused: the protocol has no place
// for it, and the peer ends the session on some of them. After an error what was
// appended is of no use; the same holds for the other Append functions.
func AppendFrame(buf *bytes.Buffer, typ string, v any) error {
	buf.WriteString(`{"type":"`)
	buf.WriteString(typ)
	buf.WriteString(`","data":`)
	if raw, ok := v.(stdjson.RawMessage); ok {
		if !jsontext.Value(raw).IsValid() || jsontext.Value(raw).Kind() != '{' {
			return errors.New("raw data is not a JSON object")
		}
		buf.Write(raw)
	} else if err := appendObject(buf, v); err != nil {
		return err
	}
	buf.WriteByte('}')
	return nil
}

// stepPrefixes are how the Python client and ours begin a step. The Python client
// writes blanks after colons and commas.
var stepPrefixes = [][]byte{[]byte(`{"type":"step","data":`), []byte(`{"type": "step", "data": `)}

// StepData returns the data of a step frame of the usual spelling without parsing it.
// What it returns may still be anything: the frame is that step if, and only if, the
// result is one JSON value.
func StepData(b []byte) (data jsontext.Value, ok bool) {
	for _, prefix := range stepPrefixes {
		if bytes.HasPrefix(b, prefix) && b[len(b)-1] == '}' {
			return jsontext.Value(b[len(prefix) : len(b)-1]), true
		}
	}
	return nil, false
}

// Request is a client's frame as a server reads it.
type Request struct {
	Type  string
	Data  jsontext.Value // nil when the key is absent
	Extra []Member       // keys of the envelope that the protocol does not know, in order
}

// Member is one key of an object with its undecoded value.
type Member struct {
	Name  string
	Value jsontext.Value
}

// ErrNotObject is returned by [ParseRequest] for well-formed JSON that is not an object.
var ErrNotObject = errors.New("message is not a JSON object")

// ParseRequest splits a client's frame. It fails with a syntax error for text
// that is not JSON and with [ErrNotObject] for another JSON value. A type that is
// missing or is not a string is the empty type, which no server knows. The values
// are copies: b can be used again.
func ParseRequest(b []byte) (Request, error) {
	var req Request
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), options)
	kind := dec.PeekKind()
	if kind != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return req, err
		}
		return req, fmt.Errorf("%w but a JSON %s", ErrNotObject, kindName(kind))
	}
	if _, err := dec.ReadToken(); err != nil {
		return req, err
	}
	for dec.PeekKind() == '"' {
		name, value, err := readMember(dec)
		if err != nil {
			return req, err
		}
		switch name {
		case "type":
			if value.Kind() == '"' {
				if err := unmarshal(value, &req.Type, Float64); err != nil {
					return req, err
				}
			}
		case "data":
			req.Data = value
		default:
			req.Extra = append(req.Extra, Member{name, value})
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return req, err
	}
	if _, err := dec.ReadToken(); err == nil {
		return req, errors.New("more than one JSON value in a message")
	} else if !isEOF(err) {
		return req, err
	}
	return req, nil
}

// readMember reads one name and value; the value is a copy, since the decoder
// may reuse its buffer.
func readMember(dec *jsontext.Decoder) (string, jsontext.Value, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return "", nil, err
	}
	name := tok.String()
	value, err := dec.ReadValue()
	if err != nil {
		return "", nil, err
	}
	return name, value.Clone(), nil
}

// HasMember reports whether the JSON object b has a member of that name.
func HasMember(b []byte, name string) bool {
	if !bytes.Contains(b, []byte(name)) && !bytes.ContainsRune(b, '\\') {
		return false // not even spelled with escapes
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), options)
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if tok.String() == name {
			return true
		}
		if err := dec.SkipValue(); err != nil {
			return false
		}
	}
	return false
}
