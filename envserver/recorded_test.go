package envserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// Members that differ wherever they stand, and why.
var (
	otherValue = map[string]string{
		"episode_id": "each server makes up its own",
	}
	notHere = map[string]string{
		"url": "a link into the documentation of the peer's validation library",
	}
)

// otherReplies are the replies that are not the peer's on purpose. In them "*" stands
// for any text.
var otherReplies = map[string]struct{ reply, why string }{
	"not json": {
		`{"type":"error","data":{"message":"Invalid JSON: *","code":"INVALID_JSON"}}`,
		"the rest of the text is the JSON library's",
	},
	"[]": {
		`{"type":"error","data":{"message":"Invalid JSON: *","code":"INVALID_JSON"}}`,
		"the peer ends the session on a value that is not an object; ours says so and goes on",
	},
}

// afterTheEnd are the replies to what the peer did not answer, because it had ended
// the session with the frame before.
var afterTheEnd = map[string]string{
	`{"type":"state"}`: `{"type":"state","data":{"episode_id":"*","step_count":2}}`,
}

// The frames that the Python server was seen to answer get the same answers here.
func TestRecordedFrames(t *testing.T) {
	for _, tt := range []struct {
		file    string
		endsAt  string // the frame after which the socket is closed
		outlive bool   // the session outlives the recording
	}{
		{file: "echo-ws.jsonl", outlive: true},
		{file: "echo-ws-close.jsonl", endsAt: `{"type":"close"}`},
	} {
		t.Run(tt.file, func(t *testing.T) {
			leak.Check(t)
			srv, err := envserver.New(echo.Spec, echo.New)
			if err != nil {
				t.Fatal(err)
			}
			s := openenvtest.ServeLoopback(t, srv)
			ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL(), "http")+"/ws", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer ws.CloseNow()
			for _, ex := range testenv.Recorded[exchange](t, tt.file) {
				ex.replay(t, ws, ex.Send == tt.endsAt)
			}
			if err := ws.Close(websocket.StatusNormalClosure, ""); tt.outlive && err != nil {
				t.Errorf("the socket was closed before the recording's end: %v", err)
			}
		})
	}
}

// exchange is a line of a recording.
type exchange struct {
	Send      string          `json:"send"`
	Recv      json.RawMessage `json:"recv"`
	CloseCode int             `json:"close_code"`
}

func (ex exchange) replay(t *testing.T, ws *websocket.Conn, end bool) {
	t.Helper()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(ex.Send)); err != nil {
		t.Fatalf("send %s: %v", ex.Send, err)
	}
	got, err := readFrame(t.Context(), ws)
	if end {
		var ce websocket.CloseError
		if !errors.As(err, &ce) || int(ce.Code) != ex.CloseCode {
			t.Errorf("%s: got %s, %v, want the end with code %d", ex.Send, got, err, ex.CloseCode)
		}
		return
	}
	if err != nil {
		t.Fatalf("reply to %s: %v", ex.Send, err)
	}
	want := string(ex.Recv)
	if other, ok := otherReplies[ex.Send]; ok {
		want = other.reply
	} else if ex.CloseCode != 0 {
		want = afterTheEnd[ex.Send]
	}
	if !sameFrame(decodeJSON(t, want), decodeJSON(t, got)) {
		t.Errorf("%s: got\n%s\nwant\n%s", ex.Send, got, want)
	}
}

func readFrame(ctx context.Context, ws *websocket.Conn) (string, error) {
	_, frame, err := ws.Read(ctx)
	return string(frame), err
}

func decodeJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// sameFrame compares two decoded values, minding the tables above.
func sameFrame(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for key := range g {
			if _, has := w[key]; !has {
				return false
			}
		}
		for key, value := range w {
			other, has := g[key]
			if _, absent := notHere[key]; absent {
				if has {
					return false
				}
				continue
			}
			if _, free := otherValue[key]; free {
				value = "*"
			}
			if !has || !sameFrame(value, other) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !sameFrame(w[i], g[i]) {
				return false
			}
		}
		return true
	case string:
		g, ok := got.(string)
		begin, end, star := strings.Cut(w, "*")
		return ok && (g == w || star && strings.HasPrefix(g, begin) && strings.HasSuffix(g, end))
	}
	return reflect.DeepEqual(want, got)
}
