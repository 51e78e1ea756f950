package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/provider"
)

// Every error type: what it matches, what it says and what it keeps.
func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	const at = "ws://h:1/ws"
	for _, tt := range []struct {
		name  string
		err   error
		is    []error
		isNot []error
		text  string
	}{
		{"ServerError", &openenv.ServerError{Op: "step", URL: at, Code: openenv.CodeExecution, Message: "boom"},
			nil, []error{openenv.ErrCapacity}, "step ws://h:1/ws: server error EXECUTION_ERROR: boom"},
		{"capacity", &openenv.ServerError{Op: "connect", URL: at, Code: openenv.CodeCapacityReached, Message: "full"},
			[]error{openenv.ErrCapacity}, []error{openenv.ErrGone}, "connect ws://h:1/ws: server error CAPACITY_REACHED: full"},
		{"ConnectError", &openenv.ConnectError{Op: "connect", URL: at, Status: 401, Err: cause},
			[]error{cause}, []error{openenv.ErrGone}, "connect ws://h:1/ws: cause"},
		{"410", &openenv.ConnectError{Op: "connect", URL: at, Status: 410, Err: cause}, []error{cause, openenv.ErrGone}, nil, "connect ws://h:1/ws: cause"},
		{"gone", &openenv.ConnectError{Op: "connect", URL: at, Err: fmt.Errorf("x: %w", provider.ErrGone)},
			[]error{openenv.ErrGone, provider.ErrGone}, nil, "connect ws://h:1/ws: x: environment is gone"},
		{"SessionLostError", &openenv.SessionLostError{Op: "step", URL: at, Cause: cause},
			[]error{cause}, []error{openenv.ErrClosed}, "step ws://h:1/ws: session lost, reset to start a new episode: cause"},
		{"SessionLostError, sent", &openenv.SessionLostError{Op: "step", URL: at, Sent: true, Cause: cause},
			[]error{cause}, nil, "step ws://h:1/ws: session lost while waiting for the reply: cause"},
		{"MessageTooBigError", &openenv.MessageTooBigError{Side: openenv.SideLocal, Limit: 7}, nil, nil, "message received exceeds the local limit of 7 bytes"},
		{"MessageTooBigError, remote", &openenv.MessageTooBigError{Side: openenv.SideRemote}, nil, nil, "message sent exceeds the server's limit"},
		{"DecodeError", &openenv.DecodeError{Op: "step", URL: at, Received: `"x"`, Err: cause}, []error{cause}, nil, `step ws://h:1/ws: decode reply: cause: received "x"`},
		{"FutureError", &openenv.FutureError{Index: 3, Err: cause}, []error{cause}, nil, "future 3: cause"},
	} {
		wrapped := fmt.Errorf("outside: %w", tt.err)
		for _, target := range tt.is {
			if !errors.Is(wrapped, target) {
				t.Errorf("%s does not match %v", tt.name, target)
			}
		}
		for _, target := range tt.isNot {
			if errors.Is(wrapped, target) {
				t.Errorf("%s matches %v", tt.name, target)
			}
		}
		if tt.err.Error() != tt.text {
			t.Errorf("%s says %q, want %q", tt.name, tt.err, tt.text)
		}
	}
}

// The sentinels are different from each other and from those of package context.
func TestSentinels(t *testing.T) {
	all := []error{openenv.ErrClosed, openenv.ErrMessageTimeout, openenv.ErrCapacity, openenv.ErrPending, openenv.ErrAbandoned,
		openenv.ErrCleanupPending, openenv.ErrGone, context.Canceled, context.DeadlineExceeded}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("errors.Is(%v, %v) = %v", a, b, i != j)
			}
		}
		if strings.ToLower(a.Error()) != a.Error() {
			t.Errorf("%q is not lower case", a)
		}
	}
}
