package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/mcp"
	"github.com/openenv-go/openenv/openenvtest"
)

// Whatever stands between a call and its answer is a *mcp.ToolError that has the cause
// inside; what is the caller's own doing is returned as it is.
func TestEveryFailureIsAToolError(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cause error
		asIs  bool
	}{
		{"a reply that is lost", &openenv.ReplyLostError{Op: "tool call", Cause: io.ErrUnexpectedEOF}, false},
		{"a call in doubt", &openenv.StepInDoubtError{Op: "tool call", Cause: io.ErrUnexpectedEOF}, false},
		{"a message too big", &openenv.MessageTooBigError{Side: openenv.SideRemote}, false},
		{"a dial that took too long", &openenv.ConnectError{Op: "connect", Err: context.DeadlineExceeded}, false},
		{"an error that nobody knows", errors.New("no idea"), false},
		{"the caller's ctx", context.Canceled, true},
		{"the caller's deadline", context.DeadlineExceeded, true},
		{"a closed client", openenv.ErrClosed, true},
		{"the other face", &openenv.ExecModeError{Op: "tool call"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			_, srv := serveRPC(t, func(string, openenv.Object) (int, string) { return 200, oneTool })
			c := newClient(t, srv.URL(), srv.Option(), openenv.WithInterceptor(func(context.Context, *openenv.Call, func(context.Context) error) error {
				return tt.cause
			}))
			_, err := c.CallTool(t.Context(), "x", nil)
			_, refused := errors.AsType[*mcp.ToolError](err)
			if !errors.Is(err, tt.cause) || refused == tt.asIs {
				t.Fatalf("got %T: %v", err, err)
			}
			if !tt.asIs {
				_ = wantKind(t, err, mcp.KindTransport)
			}
		})
	}
}

// A server that answers the request for a session with none is named as what it is.
func TestNoSessionIsMade(t *testing.T) {
	leak.Check(t)
	srv := openenvtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	_, err := newClient(t, srv.URL(), srv.Option()).CallTool(t.Context(), "x", nil)
	if failed := wantKind(t, err, mcp.KindTransport); !strings.Contains(failed.Message, "session_id") {
		t.Errorf("got %v", err)
	}
}

// JSON has no bytes that are not UTF-8: such an argument is refused, not changed.
func TestArgumentsThatAreNotUTF8(t *testing.T) {
	leak.Check(t)
	s, srv := serveRPC(t, func(string, openenv.Object) (int, string) { return 200, oneTool })
	for name, args := range map[string]any{
		"a map":     openenv.Object{"text": "a\xffb"},
		"a struct":  reason{"a\xffb"},
		"JSON text": json.RawMessage("{\"text\":\"a\xffb\"}"),
	} {
		c := newClient(t, srv.URL(), srv.Option())
		_, err := c.CallTool(t.Context(), "x", args)
		if failed := wantKind(t, err, mcp.KindInvalidArgs); !strings.Contains(failed.Message, "UTF-8") {
			t.Errorf("%s: got %v", name, err)
		}
		_, err = c.Async().CallTool("x", args).Await(t.Context())
		_ = wantKind(t, err, mcp.KindInvalidArgs)
	}
	if got := s.seen(); got != "" {
		t.Errorf("methods %s, want nothing sent", got)
	}
}
