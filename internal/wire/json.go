package wire

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// options are encoding/json's rules for user types, so that tags mean what Go
// programmers expect, except that ambiguous input (duplicate keys, invalid
// UTF-8) is refused and output is not escaped for HTML.
var options = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false),
	jsontext.EscapeForHTML(false),
	jsontext.EscapeForJS(false),
	json.WithMarshalers(json.MarshalToFunc(writeNumber)),
	json.WithUnmarshalers(json.UnmarshalFromFunc(readNumber)),
)

// decodeOptions differ from options in how an error is found and told. The old
// way checks the whole text before it decodes it, once more for each value that
// decodes itself, and says less about the place of a mistake. See unmarshal for
// what the new way refuses besides.
var decodeOptions = json.JoinOptions(options, jsonv1.ReportErrorsWithLegacySemantics(false))

// numberOptions decode a number that lands in an any as encoding/json's Number.
var numberOptions = json.JoinOptions(decodeOptions, json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(readNumber),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
		if dec.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		*v = stdjson.Number(tok.String())
		return nil
	}))))

// To the JSON library encoding/json's Number is a string like any other; the two
// functions make it a number again, as user types mean it. As a key it is a string.
func writeNumber(enc *jsontext.Encoder, n stdjson.Number) error {
	if kind, members := enc.StackIndex(enc.StackDepth()); kind == '{' && members%2 == 0 {
		return errors.ErrUnsupported
	}
	return jsonv1.Number(n).MarshalJSONTo(enc)
}

func readNumber(dec *jsontext.Decoder, n *stdjson.Number) error {
	if kind, members := dec.StackIndex(dec.StackDepth()); kind == '{' && members%2 == 0 {
		return errors.ErrUnsupported
	}
	return (*jsonv1.Number)(n).UnmarshalJSONFrom(dec)
}

// Numbers says how a JSON number is decoded into an untyped value.
type Numbers bool

const (
	Float64    Numbers = false // encoding/json's default
	JSONNumber Numbers = true  // every digit kept
)

func (n Numbers) options() json.Options {
	if n == JSONNumber {
		return numberOptions
	}
	return decodeOptions
}

// Marshal encodes v by the module's rules.
func Marshal(v any) ([]byte, error) { return json.Marshal(v, options) }

// Unmarshal decodes b into v by the module's rules.
func Unmarshal(b []byte, v any, n Numbers) error { return unmarshal(b, v, n) }

// unmarshal decodes in one pass. What fails for another reason than its syntax is
// tried again in the old way, which takes struct tags that encoding/json takes,
// too, although they are malformed.
func unmarshal(b []byte, v any, n Numbers) error {
	err := json.Unmarshal(b, v, n.options())
	if _, semantic := errors.AsType[*json.SemanticError](err); semantic &&
		json.Unmarshal(b, v, n.options(), jsonv1.ReportErrorsWithLegacySemantics(true)) == nil {
		return nil
	}
	return err
}

// maxPooled is the largest buffer kept for reuse: one screenshot must not pin
// its size in memory for the rest of the process.
const maxPooled = 4 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// GetBuffer returns an empty buffer; PutBuffer takes it back.
func GetBuffer() *bytes.Buffer {
	b, _ := buffers.Get().(*bytes.Buffer) // never anything else
	return b
}

// PutBuffer makes b available for reuse. Its bytes must not be used afterwards.
func PutBuffer(b *bytes.Buffer) {
	if b == nil || b.Cap() > maxPooled {
		return
	}
	b.Reset()
	buffers.Put(b)
}

// appendObject encodes v at the end of buf and checks that it is a JSON object.
func appendObject(buf *bytes.Buffer, v any) error {
	start := buf.Len()
	if err := json.MarshalWrite(buf, v, options); err != nil {
		return err
	}
	if kind := jsontext.Value(buf.Bytes()[start:]).Kind(); kind != '{' {
		return fmt.Errorf("%T encodes as a JSON %s, the protocol wants an object", v, kindName(kind))
	}
	return nil
}

func kindName(k jsontext.Kind) string {
	switch k { //nolint:exhaustive // the rest is no value
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "invalid value"
}

// Detach copies the bytes out of a buffer and gives the buffer back.
func Detach(b *bytes.Buffer) []byte {
	defer PutBuffer(b)
	return bytes.Clone(b.Bytes())
}
