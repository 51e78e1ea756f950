package envserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/clientsuite"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// What ends the session of other clients ends one call of a client that resumes: the
// environment's work ends at once, and the same episode goes on.
func TestResumedClientKeepsItsSession(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opts  []openenv.Option
		limit time.Duration // of the caller
		do    string
		want  func(error) bool
		took  time.Duration
	}{
		{"cancel in mid-step", nil, time.Second, "sleep:3600", func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, time.Second},
		{"message timeout", []openenv.Option{openenv.WithMessageTimeout(time.Second)}, 0, "sleep:3600", func(err error) bool { return errors.Is(err, openenv.ErrMessageTimeout) }, time.Second},
		{"the default message timeout", nil, 0, "sleep:3600", func(err error) bool { return errors.Is(err, openenv.ErrMessageTimeout) }, openenv.DefaultMessageTimeout},
		{"an action above the server's limit", nil, 0, strings.Repeat("x", 3*clientsuite.SmallLimit), func(err error) bool {
			big, ok := errors.AsType[*openenv.MessageTooBigError](err)
			return ok && big.Side == openenv.SideRemote
		}, 0},
		{"a reply above the client's limit", []openenv.Option{openenv.WithMaxMessageSize(1 << 16)}, 0, "big:100000", func(err error) bool {
			lost, ok := errors.AsType[*openenv.ReplyLostError](err)
			return ok && lost.State != nil && *lost.State == openenv.State{EpisodeID: "e", StepCount: 1}
		}, 5 * time.Second}, // of the library's close, where the network has no buffer
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leak.Check(t)
				srv := newSuiteServer(t, clientsuite.Small)
				s := openenvtest.Serve(t, srv)
				c, err := openenv.New(clientsuite.Spec, s.URL(), append([]openenv.Option{s.Option(), openenv.WithResume(openenv.Resume{})}, tt.opts...)...)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Reset(t.Context(), openenv.EpisodeID("e")); err != nil {
					t.Fatal(err)
				}
				id := c.SessionID()
				ctx := t.Context()
				if tt.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.limit)
					defer cancel()
				}
				start := time.Now()
				if _, err := c.Step(ctx, clientsuite.Action{Message: tt.do}); !tt.want(err) {
					t.Errorf("Step: %v", err)
				}
				if took := time.Since(start); took < tt.took || took > tt.took+50*time.Millisecond {
					t.Errorf("Step returned after %v, want %v", took, tt.took)
				}
				again := time.Now()
				if _, err := c.Step(t.Context(), clientsuite.Action{Message: "hi"}); err != nil {
					t.Fatalf("Step after it: %v", err)
				}
				if took := time.Since(again); took > 50*time.Millisecond {
					t.Errorf("the next step took %v: the environment did not end its work", took)
				}
				state, err := c.State(t.Context())
				steps := 2
				if strings.HasPrefix(tt.do, "x") { // it never came to the environment
					steps = 1
				}
				if want := (openenv.State{EpisodeID: "e", StepCount: steps}); err != nil || state != want || c.SessionID() != id || srv.ActiveSessions() != 1 {
					t.Errorf("State = %+v, %v, want %+v in the same session", state, err, want)
				}
			})
		})
	}
}
