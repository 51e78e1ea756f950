package recorder

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/rollout/record"
)

const (
	// alive is the time between two pings to either side, and how long one has to be
	// answered: the pings of the two reach the recorder only.
	alive = 20 * time.Second
	// piece is what is written at once: a longer write would keep control frames back.
	piece = 64 << 10
	// noClose is the code of a connection that ended without one (RFC 6455, 7.1.5).
	noClose = 1006
)

// hopByHop are the headers of an upgrade that are not the client's to the server.
var hopByHop = []string{"Connection", "Upgrade", "Host", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"}

// session forwards one socket. The server is asked first, so that the client gets the
// answer that the server gives to its upgrade.
func (r *Recorder) session(w http.ResponseWriter, req *http.Request, number int) {
	header := req.Header.Clone()
	for _, name := range hopByHop {
		header.Del(name)
	}
	var protocols []string
	for _, value := range req.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			// Numbered frames are not for records, which are to be played to any client: one
			// that offers them is left to speak plainly.
			if name = strings.TrimSpace(name); name != wire.SessionV1 {
				protocols = append(protocols, name)
			}
		}
	}
	r.settle(req.Context())
	server, answer, err := websocket.Dial(req.Context(), r.target(req).String(), &websocket.DialOptions{ //nolint:bodyclose // the library has closed it
		HTTPClient: r.dialer, HTTPHeader: header, Subprotocols: protocols, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		refuse(w, answer)
		return
	}
	server.SetReadLimit(-1)
	defer server.CloseNow()
	accept := &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled} // the server has judged the origin
	if chosen := server.Subprotocol(); chosen != "" {
		accept.Subprotocols = []string{chosen}
	}
	client, err := websocket.Accept(&hijacked{w}, req, accept)
	if err != nil {
		return // it was answered
	}
	client.SetReadLimit(-1)
	defer client.CloseNow()

	t := new(talk)
	closed := r.pass(client, server, t)
	e := &record.Episode{Index: number, Exchanges: t.exchanges(), Closed: closed}
	for _, x := range e.Exchanges {
		if x.Op == wire.TypeStep {
			e.Steps++
		}
	}
	r.delayed(t.delays)
	r.failed(r.out.Write(e))
	r.logger.Info("session ended", "session", number, "exchanges", len(e.Exchanges), "by", closed.By, "code", closed.Code)
}

// refuse hands on the answer to an upgrade that was refused.
func refuse(w http.ResponseWriter, answer *http.Response) {
	if answer == nil || answer.StatusCode < http.StatusBadRequest {
		http.Error(w, "the server behind the recorder cannot be reached", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // the library keeps its beginning
}

// pass forwards messages both ways until one side ends, and then ends the other the
// same way.
func (r *Recorder) pass(client, server *websocket.Conn, t *talk) *record.Closed {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	type end struct {
		by    string
		err   error
		other *websocket.Conn
	}
	ends := make(chan end, 2)
	var pumps sync.WaitGroup
	var told func() // set when the client has left, which it has in the end
	pumps.Go(func() {
		err := pump(ctx, client, server, t.asked, &t.delaysOut)
		told = r.left()
		ends <- end{"client", err, server}
	})
	pumps.Go(func() { ends <- end{"server", pump(ctx, server, client, t.answered, &t.delaysIn), client} })
	pumps.Go(func() { keepAlive(ctx, client, server) })
	first := <-ends
	closed := &record.Closed{By: first.by, Code: noClose}
	if told, ok := errors.AsType[websocket.CloseError](first.err); ok {
		closed.Code, closed.Reason = int(told.Code), told.Reason
		_ = first.other.Close(told.Code, told.Reason) // it may be gone, too
	} else {
		_ = first.other.CloseNow()
	}
	cancel()
	pumps.Wait()
	told()
	t.delays = slices.Concat(t.delaysOut, t.delaysIn)
	return closed
}

// pump forwards the messages of one direction, unchanged, and tells take of each:
// before it is sent on, so that no reply is known before its request.
func pump(ctx context.Context, from, to *websocket.Conn, take func(websocket.MessageType, []byte), delays *[]float64) error {
	for {
		typ, message, err := from.Read(ctx)
		if err != nil {
			return err
		}
		start := time.Now()
		take(typ, message)
		if err := send(ctx, to, typ, message); err != nil {
			// Who cannot be written to has closed, and its own reader knows how; who
			// sends is to be told nothing until then.
			<-ctx.Done()
			return err
		}
		*delays = append(*delays, float64(time.Since(start))/float64(time.Millisecond))
	}
}

func send(ctx context.Context, to *websocket.Conn, typ websocket.MessageType, message []byte) error {
	if len(message) <= piece {
		return to.Write(ctx, typ, message)
	}
	w, err := to.Writer(ctx, typ)
	if err != nil {
		return err
	}
	for len(message) > 0 {
		n := min(piece, len(message))
		if _, err := w.Write(message[:n]); err != nil {
			return err
		}
		message = message[n:]
	}
	return w.Close()
}

// keepAlive pings both sides, and drops the one that does not answer.
func keepAlive(ctx context.Context, sides ...*websocket.Conn) {
	ticks := time.NewTicker(alive)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		for _, side := range sides {
			limited, cancel := context.WithTimeout(ctx, alive)
			if side.Ping(limited) != nil && ctx.Err() == nil {
				_ = side.CloseNow()
			}
			cancel()
		}
	}
}

// talk is what was said in a session.
type talk struct {
	delaysOut, delaysIn []float64
	delays              []float64 // of both, when the session has ended

	mu      sync.Mutex
	said    []message
	heard   bool  // the server has said something
	waiting []int // requests without a reply, the oldest first
}

// message is a request and its reply, as they came.
type message struct {
	request, reply       []byte
	binaryReq, binaryRep bool
}

// asked takes a request. Only close has no reply.
func (t *talk) asked(typ websocket.MessageType, frame []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isClose(frame) {
		t.waiting = append(t.waiting, len(t.said))
	}
	t.said = append(t.said, message{request: frame, binaryReq: typ == websocket.MessageBinary})
}

// isClose reports a close frame, which is short. A long frame is not read here: it would
// be held up by that.
func isClose(frame []byte) bool {
	const short = 256
	if len(frame) > short {
		return false
	}
	x := record.NewExchange(frame, nil)
	return x.Op == wire.TypeClose
}

// answered takes a reply: to the oldest request, or to none. A refusal of the session is
// to none, whether a request had come by then or not.
func (t *talk) answered(typ websocket.MessageType, frame []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.heard
	t.heard = true
	at := len(t.said)
	if first && refusal(frame) {
		t.said = append([]message{{reply: frame}}, t.said...)
		for i := range t.waiting {
			t.waiting[i]++
		}
		return
	}
	if len(t.waiting) > 0 {
		at = t.waiting[0]
		t.waiting = t.waiting[1:]
	} else {
		t.said = append(t.said, message{})
	}
	t.said[at].reply, t.said[at].binaryRep = frame, typ == websocket.MessageBinary
}

// refusal reports a frame that a server sends in place of a session.
func refusal(frame []byte) bool {
	if typ, err := wire.ReplyType(frame); err != nil || typ != wire.TypeError {
		return false
	}
	e, err := wire.DecodeError(frame)
	return err == nil && wire.EndsSession(e.Code)
}

// exchanges is what was said, as it goes on file.
func (t *talk) exchanges() []record.Exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]record.Exchange, len(t.said))
	for i, m := range t.said {
		x := &out[i]
		switch {
		case m.binaryReq:
			x.SetBinary(m.request, false)
		default:
			x.SetRequest(m.request)
		}
		switch {
		case m.binaryRep:
			x.SetBinary(m.reply, true)
		default:
			x.SetReply(m.reply)
		}
	}
	return out
}
