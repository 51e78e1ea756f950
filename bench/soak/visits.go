package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// visits are the ways to come and go. An error in one is part of it: servers refuse,
// and clients leave.
var visits = []func(context.Context, *visitor){
	play("with a close frame"), play("with a handshake"), play("without a word"), play("in the middle of a step"), play("in the middle of a frame"),
	failing, overstaying, silent, deaf, flooding, managed, throwaway, halfHeader, halfBody, halfUpgrade, oversize,
}

// socket opens a session.
func (v *visitor) socket(ctx context.Context, query string) *websocket.Conn {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+v.address+"/ws"+query, nil) //nolint:bodyclose // of an upgrade there is nothing to close
	if err != nil {
		return nil
	}
	v.tally.sessions.Add(1)
	return ws
}

// step makes a round trip; it reports false when the session is over.
func (v *visitor) step(ws *websocket.Conn, do string, ms int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	frame := fmt.Sprintf(`{"type":"step","data":{"do":%q,"ms":%d}}`, do, ms)
	if ws.Write(ctx, websocket.MessageText, []byte(frame)) != nil {
		return false
	}
	_, reply, err := ws.Read(ctx)
	if err != nil {
		return false
	}
	if strings.Contains(string(reply), "CAPACITY_REACHED") {
		v.tally.refused.Add(1)
		return false
	}
	v.tally.steps.Add(1)
	return true
}

// play makes a few steps and leaves.
func play(leave string) func(context.Context, *visitor) {
	return func(ctx context.Context, v *visitor) {
		ws := v.socket(ctx, "")
		if ws == nil {
			return
		}
		defer ws.CloseNow() // over already, as a rule
		for range rand.IntN(20) {
			if !v.step(ws, "x", 0) {
				return
			}
		}
		background := context.Background()
		switch leave {
		case "with a close frame":
			_ = ws.Write(background, websocket.MessageText, []byte(`{"type":"close"}`)) // or it was refused
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			_, _, _ = ws.Read(ctx) // the server's close
		case "with a handshake":
			_ = ws.Close(websocket.StatusNormalClosure, "") // or it was refused
		case "in the middle of a step":
			_ = ws.Write(background, websocket.MessageText, []byte(`{"type":"step","data":{"do":"sleep","ms":5000}}`)) // or it was refused
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			v.tally.dropped.Add(1)
		case "in the middle of a frame":
			if w, err := ws.Writer(background, websocket.MessageText); err == nil {
				_, _ = io.WriteString(w, strings.Repeat("x", 5000)) // the rest never comes
			}
			v.tally.dropped.Add(1)
		default:
			v.tally.dropped.Add(1)
		}
	}
}

func failing(ctx context.Context, v *visitor) {
	if ws := v.socket(ctx, ""); ws != nil {
		defer ws.CloseNow() // the panic has ended it
		_ = v.step(ws, "fail", 0) && v.step(ws, "x", 0) && v.step(ws, "panic", 0)
	}
}

func overstaying(ctx context.Context, v *visitor) {
	if ws := v.socket(ctx, ""); ws != nil {
		defer ws.CloseNow() // the server is still busy
		_ = v.step(ws, "overstay", 500) && v.step(ws, "x", 0)
	}
}

// silent opens a session and reads, but asks for nothing until it is thrown out.
func silent(ctx context.Context, v *visitor) {
	if ws := v.socket(ctx, ""); ws != nil {
		defer ws.CloseNow() // the idle limit has ended it
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		_, _, _ = ws.Read(ctx) // the server's close
	}
}

// deaf holds the socket open and neither reads nor writes: half of a connection.
func deaf(ctx context.Context, v *visitor) {
	if ws := v.socket(ctx, ""); ws != nil {
		time.Sleep(1500 * time.Millisecond)
		v.tally.dropped.Add(1)
		_ = ws.CloseNow() // the server has given it up
	}
}

// flooding sends steps and reads no reply.
func flooding(ctx context.Context, v *visitor) {
	ws := v.socket(ctx, "")
	if ws == nil {
		return
	}
	defer ws.CloseNow() // the server cannot write to it any more
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	frame := []byte(`{"type":"step","data":{"do":"` + strings.Repeat("x", 50_000) + `"}}`)
	for range 100 {
		if ws.Write(ctx, websocket.MessageText, frame) != nil {
			break
		}
	}
	v.tally.dropped.Add(1)
}

// managed makes a session over HTTP, uses it over a socket or two, and closes it or
// leaves it to the idle limit.
func managed(ctx context.Context, v *visitor) {
	var made struct {
		Result struct {
			SessionID string `json:"session_id"`
		} `json:"result"`
	}
	if json.Unmarshal(v.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`), &made) != nil || made.Result.SessionID == "" {
		v.tally.refused.Add(1)
		return
	}
	id := made.Result.SessionID
	for range rand.IntN(3) {
		if ws := v.socket(ctx, "?session_id="+id); ws != nil {
			_ = v.step(ws, "x", 0)
			_ = ws.CloseNow() // the session goes on
		}
	}
	if rand.IntN(2) == 0 {
		v.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"openenv/session/close","params":{"session_id":"`+id+`"}}`)
	}
}

func throwaway(_ context.Context, v *visitor) {
	v.post("/reset", `{"seed":1}`)
	v.post("/step", `{"action":{"do":"x"}}`)
	v.post("/step", `{"action":{"do":"panic"}}`)
	v.post("/step", `{"action":{"do":"overstay","ms":400}}`)
	v.post("/step", `nonsense`)
}

// half sends the beginning of something and waits to be thrown out.
func half(v *visitor, text string) {
	conn, err := v.dial()
	if err != nil {
		return
	}
	defer conn.Close()
	v.tally.dropped.Add(1)
	if _, err := io.WriteString(conn, text); err == nil {
		_, _ = io.Copy(io.Discard, conn) // ends with the server's patience
	}
}

func halfHeader(_ context.Context, v *visitor) { half(v, "POST /step HTTP/1.1\r\nHost: x\r\nContent-") }

func halfBody(_ context.Context, v *visitor) {
	half(v, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"")
}

func halfUpgrade(_ context.Context, v *visitor) {
	half(v, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\x81\xfe")
}

func oversize(ctx context.Context, v *visitor) {
	if ws := v.socket(ctx, ""); ws != nil {
		defer ws.CloseNow() // the server has closed it with 1009
		_ = v.step(ws, strings.Repeat("x", 2<<20), 0)
		v.tally.dropped.Add(1)
	}
}
