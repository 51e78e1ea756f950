package record

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/openenv-go/openenv/internal/wire"
)

// Names of frames, and of what is none.
const (
	typeObservation = wire.TypeObservation

	// OpUnknown is a frame without a type that can be read; its data is all of it.
	OpUnknown = "unknown"
	// OpBinary is a binary message, which the protocol does not have.
	OpBinary = "binary"
)

// Exchange is a request and its reply. Op is the request's type, empty for a frame
// that the server sent unasked; Type is the reply's, empty when there was none.
// Data is the request's data as it was sent, nil when it had none.
type Exchange struct {
	Op   string
	Data []byte
	Type string

	dataAround, replyAround *around // nil: the usual frame
	reply                   []byte
	apart                   *apart // where the observation is, when it is not in reply
}

// around is what a frame has before and after its data.
type around struct{ before, after string }

// apart is an observation in a file of its own.
type apart struct {
	store  *blobs
	hash   string
	around around // what the reply's data has before and after it
}

// NewExchange makes an exchange of two frames as they were on the wire; a nil frame
// was not there. The frames are not kept.
func NewExchange(request, reply []byte) Exchange {
	var x Exchange
	x.SetRequest(request)
	x.SetReply(reply)
	return x
}

// SetRequest makes frame the request.
func (x *Exchange) SetRequest(frame []byte) {
	x.Op, x.Data, x.dataAround = split(frame)
}

// SetReply makes frame the reply.
func (x *Exchange) SetReply(frame []byte) {
	x.Type, x.reply, x.replyAround = split(frame)
	x.apart = nil
}

// SetBinary makes a binary message the request or the reply.
func (x *Exchange) SetBinary(message []byte, isReply bool) {
	if isReply {
		x.Type, x.reply, x.replyAround, x.apart = OpBinary, bytes.Clone(message), &around{}, nil
		return
	}
	x.Op, x.Data, x.dataAround = OpBinary, bytes.Clone(message), &around{}
}

// Request is the request's frame, byte for byte; nil when there was none.
func (x *Exchange) Request() []byte { return join(x.Op, x.Data, x.dataAround) }

// Reply is the reply's data as it was sent. It reads the file of an observation that
// is stored apart; the error is that of a file which is missing or not what it was.
func (x *Exchange) Reply() ([]byte, error) {
	if x.apart == nil {
		return x.reply, nil
	}
	observation, err := x.apart.store.get(x.apart.hash)
	if err != nil {
		return nil, err
	}
	return concat(x.apart.around.before, observation, x.apart.around.after), nil
}

// ReplyFrame is the reply's frame, byte for byte; nil when there was none.
func (x *Exchange) ReplyFrame() ([]byte, error) {
	data, err := x.Reply()
	if err != nil {
		return nil, err
	}
	return join(x.Type, data, x.replyAround), nil
}

// split takes a frame apart: its type, its data, and the rest where that is not the
// usual one.
func split(frame []byte) (typ string, data []byte, rest *around) {
	if frame == nil {
		return "", nil, nil
	}
	typ, start, end, err := members(frame)
	if err != nil || typ == "" || !utf8.Valid(frame) {
		return OpUnknown, bytes.Clone(frame), &around{}
	}
	rest = &around{string(frame[:start]), string(frame[end:])}
	if end > start {
		data = bytes.Clone(frame[start:end])
	}
	if *rest == usual(typ, data) {
		rest = nil
	}
	return typ, data, rest
}

// join puts a frame together again.
func join(typ string, data []byte, rest *around) []byte {
	if typ == "" {
		return nil
	}
	if rest == nil {
		u := usual(typ, data)
		rest = &u
	}
	return concat(rest.before, data, rest.after)
}

// usual is what a frame as this module writes it has around its data.
func usual(typ string, data []byte) around {
	name, err := wire.Marshal(typ)
	if err != nil {
		name = []byte(`""`)
	}
	if data == nil {
		return around{before: `{"type":` + string(name) + "}"}
	}
	return around{`{"type":` + string(name) + `,"data":`, "}"}
}

func concat(before string, data []byte, after string) []byte {
	out := make([]byte, 0, len(before)+len(data)+len(after))
	return append(append(append(out, before...), data...), after...)
}

var errFrame = errors.New("frame is not an object with a type and data, each once")

// lenient takes whatever JSON a peer may send, escapes of half a character included.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// members finds the type of a frame and where its data is. Without data start and end
// are the frame's length.
func members(frame []byte) (typ string, start, end int, err error) {
	start, end = len(frame), len(frame)
	found, err := member(frame, func(name string, value jsontext.Value, at int) {
		switch {
		case name == "data":
			start, end = at, at+len(value)
		case value.Kind() == '"':
			text, unquoteErr := jsontext.AppendUnquote(nil, value)
			if unquoteErr == nil {
				typ = string(text)
			}
		}
	}, "type", "data")
	if err == nil && (found["type"] != 1 || found["data"] > 1) {
		err = errFrame
	}
	return typ, start, end, err
}

// member calls visit with the members of an object that have one of the names, and
// counts them.
func member(object []byte, visit func(name string, value jsontext.Value, at int), names ...string) (map[string]int, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), lenient)
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if tok.Kind() != '{' {
		return nil, errFrame
	}
	found := map[string]int{}
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := tok.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		for _, wanted := range names {
			if name == wanted {
				found[name]++
				visit(name, value, int(dec.InputOffset())-len(value))
			}
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errFrame
	}
	return found, nil
}
