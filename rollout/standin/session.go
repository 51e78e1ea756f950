package standin

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/rollout/record"
)

// session is one socket and where its script is.
type session struct {
	s      *Server
	ws     *websocket.Conn
	script *record.Episode // nil before the first request
	at     int
}

func (s *Server) socket(w http.ResponseWriter, r *http.Request, number int) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // it was answered
	}
	ws.SetReadLimit(-1)
	defer ws.CloseNow()
	p := &session{s: s, ws: ws, script: s.unasked(number)}
	for {
		if over, err := p.speak(s.ctx); over || err != nil {
			return
		}
		_, frame, err := ws.Read(s.ctx)
		if err != nil {
			return
		}
		if bye, err := p.hear(s.ctx, frame); bye || err != nil {
			return
		}
	}
}

// unasked is the recorded session of that number if the server spoke first in it: it
// was refused, say.
func (s *Server) unasked(number int) *record.Episode {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number >= len(s.file.Episodes) {
		return nil
	}
	e := s.file.Episodes[number]
	if len(e.Exchanges) == 0 || e.Exchanges[0].Op != "" {
		return nil
	}
	s.played[number]++
	return e
}

// begin takes the episode that starts with a request; the one that was played least
// often, if there are several.
func (s *Server) begin(request *record.Exchange) *record.Episode {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for i, e := range s.file.Episodes {
		if len(e.Exchanges) > 0 && same(&e.Exchanges[0], request) && (best < 0 || s.played[i] < s.played[best]) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	s.played[best]++
	return s.file.Episodes[best]
}

// first is what an episode that nobody has played begins with.
func (s *Server) first() *record.Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.file.Episodes {
		if s.played[i] == 0 && len(e.Exchanges) > 0 && e.Exchanges[0].Op != "" {
			return &e.Exchanges[0]
		}
	}
	return nil
}

// same reports that two requests mean the same.
func same(a, b *record.Exchange) bool {
	return a.Op == b.Op && (bytes.Equal(a.Data, b.Data) || bytes.Equal(record.Canonical(orEmpty(a.Data)), record.Canonical(orEmpty(b.Data))))
}

// orEmpty is the data that a request without any stands for.
func orEmpty(data []byte) []byte {
	if data == nil {
		return []byte("{}")
	}
	return data
}

// next is what the script expects, nil at its end.
func (p *session) next() *record.Exchange {
	if p.script == nil || p.at >= len(p.script.Exchanges) {
		return nil
	}
	return &p.script.Exchanges[p.at]
}

// speak sends what the server sent unasked, and closes where it closed.
func (p *session) speak(ctx context.Context) (over bool, err error) {
	for x := p.next(); x != nil && x.Op == ""; x = p.next() {
		if err := p.reply(ctx, x); err != nil {
			return true, err
		}
	}
	if p.script == nil || p.at < len(p.script.Exchanges) && p.script.Exchanges[0].Op != "" {
		return false, nil // who was refused is not waited for
	}
	if c := p.script.Closed; c != nil && c.By == "server" {
		if c.Code == abnormal {
			return true, p.ws.CloseNow()
		}
		return true, p.ws.Close(websocket.StatusCode(c.Code), c.Reason)
	}
	return false, nil
}

// abnormal stands for a connection that ended without a close.
const abnormal = 1006

// hear answers a frame: as the script has it, as another script begins, or with an
// error.
func (p *session) hear(ctx context.Context, frame []byte) (bye bool, err error) {
	request := record.NewExchange(frame, nil)
	if request.Op == wire.TypeClose {
		return true, p.ws.Close(websocket.StatusNormalClosure, "")
	}
	if x := p.next(); x != nil && same(x, &request) {
		return false, p.reply(ctx, x)
	}
	if p.next() == nil || request.Op == wire.TypeReset {
		if e := p.s.begin(&request); e != nil {
			p.script, p.at = e, 0
			return false, p.reply(ctx, p.next())
		}
	}
	if request.Op == wire.TypeState {
		// Clients ask for it to see whether they are admitted; it changes nothing.
		return false, p.write(ctx, fmt.Appendf(nil, `{"type":"state","data":{"episode_id":"","step_count":%d}}`, p.steps()))
	}
	return false, p.complain(ctx, &request)
}

// steps is how many steps of the script were taken since its last reset.
func (p *session) steps() int {
	n := 0
	for i := range p.at {
		switch p.script.Exchanges[i].Op {
		case wire.TypeReset:
			n = 0
		case wire.TypeStep:
			n++
		}
	}
	return n
}

// reply sends what was answered then, if anything was, and goes on in the script.
func (p *session) reply(ctx context.Context, x *record.Exchange) error {
	p.at++
	frame, err := x.ReplyFrame()
	switch {
	case err != nil:
		return p.fail(ctx, err.Error())
	case frame == nil:
		return nil
	case x.Type == record.OpBinary:
		return p.ws.Write(ctx, websocket.MessageBinary, frame)
	}
	return p.write(ctx, frame)
}

// complain names what was expected.
func (p *session) complain(ctx context.Context, got *record.Exchange) error {
	where, expected := "no episode of the record", p.next()
	if p.script != nil {
		where = fmt.Sprintf("episode %d, exchange %d", p.script.Index, p.at)
	}
	if expected == nil {
		expected = p.s.first()
	}
	want := "nothing more"
	if expected != nil {
		want = requestText(expected)
	}
	return p.fail(ctx, fmt.Sprintf("%s: expected %s, got %s", where, want, requestText(got)))
}

// requestText is as much of a request as an error has.
func requestText(x *record.Exchange) string {
	const enough = 400
	text := x.Op
	if x.Data != nil {
		text += " " + string(x.Data)
	}
	if len(text) > enough {
		return string(bytes.ToValidUTF8([]byte(text[:enough]), nil)) + "…"
	}
	return text
}

func (p *session) fail(ctx context.Context, message string) error {
	var b bytes.Buffer
	if err := wire.AppendError(&b, wire.Error{Code: wire.CodeExecution, Message: "stand-in: " + message}); err != nil {
		return err
	}
	return p.write(ctx, b.Bytes())
}

// piece is what is written at once: a longer write would keep control frames back.
const piece = 64 << 10

func (p *session) write(ctx context.Context, frame []byte) error {
	if len(frame) <= piece {
		return p.ws.Write(ctx, websocket.MessageText, frame)
	}
	w, err := p.ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for len(frame) > 0 {
		n := min(piece, len(frame))
		if _, err := w.Write(frame[:n]); err != nil {
			return err
		}
		frame = frame[n:]
	}
	return w.Close()
}
