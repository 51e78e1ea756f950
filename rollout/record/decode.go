package record

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// Line is one line of a file: exactly one field is set.
type Line struct {
	Header  *Header
	Episode *Episode
	HTTP    *HTTP
}

// lineJSON is a line of any kind.
type lineJSON struct {
	Version *int      `json:"openenv_record"`
	HTTP    *httpJSON `json:"http"`

	Episode   *int           `json:"episode"`
	Seed      *int64         `json:"seed"`
	Ending    Ending         `json:"ending"`
	Limit     Limit          `json:"limit"`
	Error     string         `json:"error"`
	Return    *float64       `json:"return"`
	Steps     int            `json:"steps"`
	Exchanges []exchangeJSON `json:"exchanges"`
	Closed    *Closed        `json:"closed"`
	Attempts  []Attempt      `json:"attempts"`
}

type exchangeJSON struct {
	Op          string          `json:"op"`
	Data        json.RawMessage `json:"data"`
	DataText    *string         `json:"data_text"`
	DataBase64  *string         `json:"data_base64"`
	DataAround  []string        `json:"data_around"`
	Type        *string         `json:"type"`
	Reply       json.RawMessage `json:"reply"`
	ReplyText   *string         `json:"reply_text"`
	ReplyBase64 *string         `json:"reply_base64"`
	ReplyAround []string        `json:"reply_around"`
	Ref         string          `json:"observation_ref"`
	RefAround   []string        `json:"observation_around"`
}

type httpJSON struct {
	Method        string          `json:"method"`
	Path          string          `json:"path"`
	Request       json.RawMessage `json:"request"`
	RequestText   *string         `json:"request_text"`
	RequestBase64 *string         `json:"request_base64"`
	Status        int             `json:"status"`
	ContentType   string          `json:"content_type"`
	Body          json.RawMessage `json:"body"`
	BodyText      *string         `json:"body_text"`
	BodyBase64    *string         `json:"body_base64"`
}

// parse reads a line, its newline not included.
func parse(b []byte, store *blobs) (Line, error) {
	var in lineJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return Line{}, err
	}
	switch {
	case in.Version != nil:
		return parseHeader(b)
	case in.HTTP != nil:
		x, err := in.HTTP.decode()
		return Line{HTTP: x}, err
	case in.Episode == nil:
		return Line{}, errors.New("line is neither a header nor an episode nor an HTTP exchange")
	}
	e := &Episode{
		Index: *in.Episode, Seed: in.Seed, Ending: in.Ending, Limit: in.Limit, Error: in.Error,
		Steps: in.Steps, Exchanges: make([]Exchange, len(in.Exchanges)), Closed: in.Closed, Attempts: in.Attempts,
	}
	if in.Return != nil {
		e.Return = *in.Return
	}
	for i := range in.Exchanges {
		var err error
		if e.Exchanges[i], err = in.Exchanges[i].decode(store); err != nil {
			return Line{}, fmt.Errorf("exchange %d: %w", i, err)
		}
	}
	return Line{Episode: e}, nil
}

func parseHeader(b []byte) (Line, error) {
	h := new(Header)
	if err := json.Unmarshal(b, h); err != nil {
		return Line{}, err
	}
	if h.Version < 1 || h.Version > Version {
		return Line{}, fmt.Errorf("format version %d is none that this program reads (1 to %d)", h.Version, Version)
	}
	return Line{Header: h}, nil
}

func (in *exchangeJSON) decode(store *blobs) (Exchange, error) {
	x := Exchange{Op: in.Op, Type: replyTypes[in.Op]}
	if in.Type != nil {
		x.Type = *in.Type
	}
	var err error
	if x.Data, err = decodeRaw(in.Data, in.DataText, in.DataBase64); err != nil {
		return Exchange{}, fmt.Errorf("data: %w", err)
	}
	if x.reply, err = decodeRaw(in.Reply, in.ReplyText, in.ReplyBase64); err != nil {
		return Exchange{}, fmt.Errorf("reply: %w", err)
	}
	if x.dataAround, err = decodeAround("data_around", in.DataAround); err != nil {
		return Exchange{}, err
	}
	if x.replyAround, err = decodeAround("reply_around", in.ReplyAround); err != nil {
		return Exchange{}, err
	}
	if in.Ref == "" {
		return x, nil
	}
	where, err := decodeAround("observation_around", in.RefAround)
	if err != nil {
		return Exchange{}, err
	}
	if where == nil || !isHash(in.Ref) {
		return Exchange{}, fmt.Errorf("observation_ref %q is no reference", in.Ref)
	}
	x.apart = &apart{store, in.Ref, *where}
	return x, nil
}

func decodeAround(name string, parts []string) (*around, error) {
	switch len(parts) {
	case 0:
		return nil, nil //nolint:nilnil // the usual frame
	case 2:
		return &around{parts[0], parts[1]}, nil
	}
	return nil, fmt.Errorf("%s has %d parts, not 2", name, len(parts))
}

// decodeRaw undoes line.raw.
func decodeRaw(inline json.RawMessage, text, base *string) ([]byte, error) {
	switch {
	case text != nil:
		return []byte(*text), nil
	case base != nil:
		return base64.StdEncoding.DecodeString(*base)
	case inline != nil:
		return inline, nil
	}
	return nil, nil
}

func (in *httpJSON) decode() (*HTTP, error) {
	x := &HTTP{Method: in.Method, Path: in.Path, Status: in.Status, ContentType: in.ContentType}
	var err error
	if x.Request, err = decodeRaw(in.Request, in.RequestText, in.RequestBase64); err != nil {
		return nil, fmt.Errorf("http request: %w", err)
	}
	if x.Body, err = decodeRaw(in.Body, in.BodyText, in.BodyBase64); err != nil {
		return nil, fmt.Errorf("http body: %w", err)
	}
	return x, nil
}
