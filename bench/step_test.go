package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
)

func bareEcho(b *testing.B, size int) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		ws.SetReadLimit(-1)
		for {
			_, p, err := ws.Read(context.Background())
			if err != nil {
				return
			}
			if ws.Write(context.Background(), websocket.MessageText, p) != nil {
				return
			}
		}
	}))
	defer srv.Close()
	ws, _, err := websocket.Dial(context.Background(), srv.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	ch := make(chan []byte)
	go func() {
		for {
			_, p, err := ws.Read(context.Background())
			if err != nil {
				close(ch)
				return
			}
			ch <- p
		}
	}()
	msg := []byte(`{"type":"step","data":{"message":"` + strings.Repeat("x", size) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		ws.Write(context.Background(), websocket.MessageText, msg)
		<-ch
	}
}

func BenchmarkBare100(b *testing.B) { bareEcho(b, 100) }
func BenchmarkBare10k(b *testing.B) { bareEcho(b, 10<<10) }

func step(b *testing.B, size int) {
	srv, _ := envserver.New(echo.Spec, echo.New)
	env, err := openenv.FromProvider(context.Background(), echo.Spec, envserver.Embedded(srv))
	if err != nil {
		b.Fatal(err)
	}
	defer env.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := echo.Action{Message: strings.Repeat("x", size)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := env.Step(ctx, a); err != nil {
			b.Fatal(err)
		}
	}
}
func BenchmarkStep100(b *testing.B) { step(b, 100) }
func BenchmarkStep10k(b *testing.B) { step(b, 10<<10) }
