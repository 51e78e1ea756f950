package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv/internal/bridge"
	"github.com/openenv-go/openenv/internal/leak"
)

// A request that its host has cancelled is not answered; the next one is, and the end of
// input is not held up for the other.
func TestCancelledRequestHasNoReply(t *testing.T) {
	for _, id := range []string{`5`, `"five"`} {
		t.Run(id, func(t *testing.T) {
			leak.Check(t)
			s := startToolbox(t, 1)
			in, host := io.Pipe()
			out, toHost := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- bridge.Stdio(t.Context(), in, toHost, bridge.Config{Dial: s.dial})
				toHost.Close()
			}()
			answers := bufio.NewScanner(out)
			send := func(format string, args ...any) {
				t.Helper()
				if _, err := fmt.Fprintf(host, format+"\n", args...); err != nil {
					t.Fatal(err)
				}
			}
			expect := func(want string) {
				t.Helper()
				if !answers.Scan() || !strings.Contains(answers.Text(), want) {
					t.Fatalf("got %q, want %s", answers.Text(), want)
				}
			}
			send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}`)
			expect(`"id":1`)
			send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"wait"}}`, id)
			s.expectWait(t)
			send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"of nobody"}}`)
			send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
			<-s.gone
			send(`{"jsonrpc":"2.0","id":6,"method":"ping"}`)
			expect(`"id":6`)
			began := time.Now()
			if err := host.Close(); err != nil {
				t.Error(err)
			}
			if answers.Scan() {
				t.Errorf("got %q for a request that was cancelled", answers.Text())
			}
			if err := awaitEnd(t, ended); err != nil {
				t.Errorf("the bridge ended with %v", err)
			}
			if took := time.Since(began); took > patience/2 {
				t.Errorf("the end took %v", took)
			}
			in.Close()
			s.expectFree(t)
		})
	}
}
