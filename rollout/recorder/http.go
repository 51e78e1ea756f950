package recorder

import (
	"bytes"
	"io"
	"net/http"

	"github.com/openenv-go/openenv/rollout/record"
)

// mostBody is the largest body that is put on file. A larger one passes all the same.
const mostBody = 1 << 20

// taking is a transport that puts exchanges on file.
type taking struct {
	next *http.Transport
	r    *Recorder
}

func (t *taking) close() { t.next.CloseIdleConnections() }

// RoundTrip takes down what can be played again: bodies of a known and moderate size,
// not encoded.
func (t *taking) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &record.HTTP{Method: req.Method, Path: req.URL.RequestURI()}
	known := req.Body == nil || req.Body == http.NoBody
	if !known && req.ContentLength > 0 && req.ContentLength <= mostBody {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close() // it was read to its end
		x.Request, known = body, true
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if !known || resp.Header.Get("Content-Encoding") != "" || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, nil
	}
	x.Status, x.ContentType = resp.StatusCode, resp.Header.Get("Content-Type")
	resp.Body = &takenBody{ReadCloser: resp.Body, x: x, r: t.r}
	return resp, nil
}

// takenBody keeps what is read of a body, and puts it on file when all was.
type takenBody struct {
	io.ReadCloser

	x    *record.HTTP
	r    *Recorder
	over bool
}

func (b *takenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.over {
		return n, err
	}
	b.x.Body = append(b.x.Body, p[:n]...)
	switch {
	case len(b.x.Body) > mostBody:
		b.over, b.x.Body = true, nil
	case err == io.EOF: // as io.Reader has it
		b.over = true
		b.r.failed(b.r.out.WriteHTTP(b.x))
	}
	return n, err
}
