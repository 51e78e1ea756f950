package envserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openenv-go/openenv/internal/wire"
)

// serveRPCSocket is an upgrade of GET /mcp: a session of its own whose messages are
// JSON-RPC.
func (s *Server) serveRPCSocket(w http.ResponseWriter, r *http.Request) {
	s.upgrade(w, r, func(k *socket) (int, string) {
		d := &dialogue{k: k, queued: make(map[string]bool)}
		k.inbox.seen = d.seen // before anything is read
		if err := k.begin(""); err != nil {
			return k.refuse(func() { k.respond(rpcFail(nil, rpcServer, err.Error(), refusalData(err))) })
		}
		defer k.finish()
		return k.serve(d.answer)
	})
}

var errCancelled = errors.New("request was cancelled")

// dialogue is what an /mcp socket knows of the requests that its client may cancel: the
// one that runs, and those that were read ahead of their turn.
type dialogue struct {
	k *socket

	mu        sync.Mutex
	queued    map[string]bool // by id; true when cancelled
	running   string
	cancel    context.CancelCauseFunc
	cancelled bool
}

// answer leaves the reply to one message in the socket's buffer: none to a notification,
// and none to a request that was cancelled.
func (d *dialogue) answer(msg message) (end bool, err error) {
	d.k.h.touch()
	req, fail := parseRPC(msg.buf.Bytes())
	if msg.binary {
		binary := rpcFail(nil, rpcParseError, "Parse error", nil)
		fail = &binary
	}
	switch {
	case fail != nil:
		d.k.respond(*fail)
		return false, nil
	case req.notification():
		return false, nil
	}
	ctx, ok := d.begin(idKey(req.ID))
	if !ok {
		return false, nil
	}
	resp, err := d.k.srv.rpc(ctx, req, caller{d.k.h, func(c call) error {
		d.k.inbox.watch()
		defer d.k.inbox.unwatch()
		return d.k.h.do(ctx, c)
	}})
	d.k.srv.logPanic(d.k.h.id, err)
	if !d.end() {
		d.k.respond(resp)
	}
	return false, err
}

// begin gives a request its ctx; it reports false on one that was cancelled before its
// turn.
func (d *dialogue) begin(id string) (context.Context, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gone := d.queued[id]
	delete(d.queued, id)
	if gone {
		return nil, false
	}
	ctx, cancel := context.WithCancelCause(d.k.h.ctx)
	d.running, d.cancel, d.cancelled = id, cancel, false
	return ctx, true
}

// end reports whether the request that ran was cancelled.
func (d *dialogue) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel(nil)
	d.running, d.cancel = "", nil
	return d.cancelled
}

// seen looks at a message that was read while a request runs.
func (d *dialogue) seen(text []byte) {
	req, fail := parseRPC(text)
	if fail != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if id := idKey(req.ID); id != "" && !req.notification() {
		d.queued[id] = false
		return
	}
	id := cancelledID(req)
	if id == "" {
		return
	}
	if id == d.running {
		d.cancelled = true
		d.cancel(errCancelled)
	} else if _, ok := d.queued[id]; ok {
		d.queued[id] = true
	}
}

// notification reports whether a request wants no answer. The peer answers any request,
// with id null when it has none; only the standard's notifications are not answered.
func (r rpcRequest) notification() bool {
	return idKey(r.ID) == "" && strings.HasPrefix(*r.Method, "notifications/")
}

// cancelledID is the id of the request that a notification cancels; empty when it is
// about something else.
func cancelledID(req rpcRequest) string {
	if *req.Method != "notifications/cancelled" {
		return ""
	}
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if len(req.Params) == 0 || wire.Unmarshal(req.Params, &params, wire.Float64) != nil {
		return ""
	}
	return idKey(params.RequestID)
}

// idKey is an id in the one spelling that equal texts have; empty for no id. A number is
// left as it is spelled, since large ones have no other.
func idKey(id json.RawMessage) string {
	value := jsontext.Value(bytes.TrimSpace(bytes.Clone(id)))
	switch {
	case len(value) == 0, value.Kind() == 'n':
		return ""
	case value.Kind() == '"' && value.Canonicalize() != nil:
		return ""
	}
	return string(value)
}
