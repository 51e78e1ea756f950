package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// line builds one line of a file. Values of a server stand in it as they are, which
// an encoder would not let them.
type line struct{ bytes.Buffer }

// key begins a member.
func (l *line) key(name string) {
	if b := l.Bytes(); len(b) > 0 && b[len(b)-1] != '{' {
		l.WriteByte(',')
	}
	l.WriteByte('"')
	l.WriteString(name)
	l.WriteString(`":`)
}

func (l *line) integer(name string, v int) {
	l.key(name)
	l.WriteString(strconv.Itoa(v))
}

func (l *line) text(name, v string) {
	if v != "" {
		l.key(name)
		l.string(v)
	}
}

// string writes a JSON string. Nothing that is not UTF-8 gets here: see raw.
func (l *line) string(v string) {
	quoted, err := jsontext.AppendQuote(nil, v)
	if err != nil { // invalid UTF-8, in an error's text say
		quoted, _ = jsontext.AppendQuote(nil, string(bytes.ToValidUTF8([]byte(v), []byte("\uFFFD")))) // valid now
	}
	l.Write(quoted)
}

// value writes what encoding/json makes of v, a type of this package that it can
// always encode, or a number.
func (l *line) value(name string, v any) error {
	encoded, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.key(name)
	l.Write(encoded)
	return nil
}

// raw writes bytes of a peer: as the JSON value that they are, or else, where that
// would break the line or is no value, as a string, or in base64.
func (l *line) raw(name string, b []byte) {
	switch {
	case b == nil:
	case !utf8.Valid(b):
		l.text(name+"_base64", base64.StdEncoding.EncodeToString(b))
	case bytes.ContainsAny(b, "\r\n") || len(bytes.TrimSpace(b)) != len(b) || !json.Valid(b):
		l.key(name + "_text")
		l.string(string(b))
	default:
		l.key(name)
		l.Write(b)
	}
}

func (l *line) around(name string, a *around) {
	if a == nil {
		return
	}
	l.key(name)
	l.WriteByte('[')
	l.string(a.before)
	l.WriteByte(',')
	l.string(a.after)
	l.WriteByte(']')
}

// episode writes an episode. Observations over the limit of the store go there.
func (l *line) episode(e *Episode, store *blobs) error {
	l.WriteByte('{')
	l.integer("episode", e.Index)
	if e.Seed != nil {
		l.key("seed")
		l.WriteString(strconv.FormatInt(*e.Seed, 10))
	}
	l.text("ending", string(e.Ending))
	l.text("limit", string(e.Limit))
	l.text("error", e.Error)
	if e.Ending != "" {
		if err := l.value("return", finite(e.Return)); err != nil {
			return err
		}
		l.integer("steps", e.Steps)
	}
	l.key("exchanges")
	l.WriteByte('[')
	for i := range e.Exchanges {
		if i > 0 {
			l.WriteByte(',')
		}
		if err := l.exchange(&e.Exchanges[i], store); err != nil {
			return err
		}
	}
	l.WriteByte(']')
	if e.Closed != nil {
		if err := l.value("closed", e.Closed); err != nil {
			return err
		}
	}
	if len(e.Attempts) > 0 {
		if err := l.value("attempts", e.Attempts); err != nil {
			return err
		}
	}
	l.WriteString("}\n")
	return nil
}

func (l *line) exchange(x *Exchange, store *blobs) error {
	l.WriteByte('{')
	l.key("op")
	l.string(x.Op)
	l.raw("data", x.Data)
	l.around("data_around", x.dataAround)
	if x.Type != replyTypes[x.Op] {
		l.key("type")
		l.string(x.Type)
	}
	where, err := x.place(store)
	if err != nil {
		return err
	}
	if where != nil {
		l.text("observation_ref", where.hash)
		l.around("observation_around", &where.around)
	} else {
		l.raw("reply", x.reply)
	}
	l.around("reply_around", x.replyAround)
	l.WriteByte('}')
	return nil
}

// replyTypes are the replies that a request has when nothing goes wrong. They are left
// out of a line.
var replyTypes = map[string]string{"reset": "observation", "step": "observation", "state": "state", "mcp": "mcp"}

// place puts the observation of a reply into the store if it is over the store's
// limit, and says where it is.
func (x *Exchange) place(store *blobs) (*apart, error) {
	if x.apart != nil {
		observation, err := x.apart.store.get(x.apart.hash)
		if err != nil {
			return nil, err
		}
		return x.apart, store.put(x.apart.hash, observation)
	}
	if x.Type != typeObservation || store.limit <= 0 || len(x.reply) <= store.limit {
		return nil, nil //nolint:nilnil // it stays where it is
	}
	start, end := 0, 0
	found, err := member(x.reply, func(_ string, value jsontext.Value, at int) { start, end = at, at+len(value) }, "observation")
	if err != nil || found["observation"] != 1 || end-start <= store.limit {
		return nil, nil //nolint:nilerr,nilnil // what has no observation has none to put apart
	}
	observation := x.reply[start:end]
	hash := hashOf(observation)
	return &apart{store, hash, around{string(x.reply[:start]), string(x.reply[end:])}}, store.put(hash, observation)
}

func (l *line) http(x *HTTP) {
	l.WriteString(`{"http":{`)
	l.text("method", x.Method)
	l.text("path", x.Path)
	l.raw("request", nonEmpty(x.Request))
	l.integer("status", x.Status)
	l.text("content_type", x.ContentType)
	l.raw("body", nonEmpty(x.Body))
	l.WriteString("}}\n")
}

func nonEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func (l *line) header(h *Header) error {
	encoded, err := json.Marshal(h)
	if err != nil {
		return err
	}
	l.Write(encoded)
	l.WriteByte('\n')
	return nil
}
