package session_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wsock"
	"github.com/openenv-go/openenv/openenvtest"
)

// verdict is what a caller whose reply was lost is told.
type verdict string

const (
	isApplied verdict = "applied, its reply lost"
	inDoubt   verdict = "in doubt"
	isSent    verdict = "sent again, and answered"
)

func verdictOf(err error) verdict {
	if _, ok := errors.AsType[*session.ReplyLostError](err); ok {
		return isApplied
	}
	if _, ok := errors.AsType[*session.DoubtError](err); ok {
		return inDoubt
	}
	if err == nil {
		return isSent
	}
	return verdict(err.Error())
}

// On a server that does not number requests nothing is guessed: a request was applied
// only when the episode's own count says so, and is sent again only for a caller that
// trusts the count.
func TestVerdictOnARequestInDoubt(t *testing.T) {
	const at3 = `{"episode_id":"e","step_count":3}`
	for _, tt := range []struct {
		name          string
		op            session.Op
		before, after string // states; empty: an error frame
		want          verdict
		trusting      verdict // with Trust; empty: the same
	}{
		{"the count grew by one", session.OpStep, at3, `{"episode_id":"e","step_count":4}`, isApplied, ""},
		{"the count did not grow", session.OpStep, at3, at3, inDoubt, isSent},
		{"the count grew by two", session.OpStep, at3, `{"episode_id":"e","step_count":5}`, inDoubt, ""},
		{"the count fell", session.OpStep, at3, `{"episode_id":"e","step_count":2}`, inDoubt, ""},
		{"another episode, one more", session.OpStep, at3, `{"episode_id":"f","step_count":4}`, inDoubt, ""},
		{"another episode, the same count", session.OpStep, at3, `{"episode_id":"f","step_count":3}`, inDoubt, ""},
		{"no count before", session.OpStep, `{"episode_id":"e"}`, `{"episode_id":"e","step_count":1}`, inDoubt, ""},
		{"no count after", session.OpStep, at3, `{"episode_id":"e"}`, inDoubt, ""},
		{"no count at all", session.OpStep, `{"episode_id":"e"}`, `{"episode_id":"e"}`, inDoubt, ""},
		{"a count that is none", session.OpStep, `{"step_count":"3"}`, `{"step_count":"4"}`, inDoubt, ""},
		{"a state that cannot be had", session.OpStep, at3, ``, inDoubt, ""},
		{"a tool call that counted one", session.OpTool, at3, `{"episode_id":"e","step_count":4}`, isApplied, ""},
		{"a tool call that counted nothing", session.OpTool, at3, at3, inDoubt, ""},
		{"a reset that began another episode", session.OpReset, at3, `{"episode_id":"f","step_count":0}`, isApplied, ""},
		{"a reset, and the same episode at its beginning", session.OpReset, at3, `{"episode_id":"e","step_count":0}`, inDoubt, ""},
		{"a reset, and another episode with steps", session.OpReset, at3, `{"episode_id":"f","step_count":1}`, inDoubt, ""},
		{"a reset, and an episode without a name", session.OpReset, at3, `{"episode_id":"","step_count":0}`, inDoubt, ""},
		{"a reset, and nothing changed", session.OpReset, at3, at3, inDoubt, ""},
		{"a question", session.OpState, at3, at3, isSent, ""},
	} {
		for _, trust := range []bool{false, true} {
			want := tt.want
			if trust && tt.trusting != "" {
				want = tt.trusting
			}
			t.Run(tt.name+map[bool]string{true: "/trusting"}[trust], func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := &witness{states: []string{tt.before, tt.after}}
					s := resuming(t, func(c *session.Config, _ *wsock.Options) { c.Resume.Trust = trust }, w.play)
					err := call(t.Context(), s.Session, tt.op)
					if got := verdictOf(err); got != want {
						t.Errorf("%v, want %v: %v", got, want, err)
					}
					if doubt, ok := errors.AsType[*session.DoubtError](err); ok && tt.op == session.OpStep {
						wantState(t, "before", doubt.Before, tt.before)
						wantState(t, "after", doubt.After, tt.after)
					}
					sent := 1
					if want == isSent {
						sent = 2
					}
					if got := w.count(tt.op); got != sent {
						t.Errorf("%v was sent %d times, want %d", tt.op, got, sent)
					}
					must(t, call(t.Context(), s.Session, session.OpStep))
				})
			})
		}
	}
}

func wantState(t *testing.T, when string, got *session.State, sent string) {
	t.Helper()
	known := map[string]session.State{
		`{"episode_id":"e","step_count":3}`: {EpisodeID: "e", StepCount: 3},
		`{"episode_id":"e","step_count":5}`: {EpisodeID: "e", StepCount: 5},
		`{"episode_id":"e","step_count":2}`: {EpisodeID: "e", StepCount: 2},
		`{"episode_id":"e","step_count":1}`: {EpisodeID: "e", StepCount: 1},
		`{"episode_id":"f","step_count":4}`: {EpisodeID: "f", StepCount: 4},
		`{"episode_id":"f","step_count":3}`: {EpisodeID: "f", StepCount: 3},
	}
	want, ok := known[sent]
	if ok != (got != nil) || ok && *got != want {
		t.Errorf("state %s: %+v, the server said %q", when, got, sent)
	}
}

// witness plays a server whose first socket ends with the first request in the air. It
// counts what it was sent.
type witness struct {
	states []string // that the first socket, and the second, begins with
	losses int      // sockets that end so; 0: one

	mu   sync.Mutex
	seen map[string]int
}

func (w *witness) play(p *openenvtest.Peer) {
	losses := max(w.losses, 1)
	state := w.states[min(p.Number()-1, len(w.states)-1)]
	for first := true; ; first = false {
		f, ok := p.Next()
		if !ok || f.Type == "close" {
			return
		}
		if first {
			f.Type = "probe"
		}
		w.mu.Lock()
		if w.seen == nil {
			w.seen = map[string]int{}
		}
		w.seen[f.Type]++
		w.mu.Unlock()
		switch {
		case !first && p.Number() <= losses:
			p.Abort()
			return
		case f.Type == "mcp":
			p.Send(`{"type":"mcp","data":{}}`)
		case f.Type != "state" && f.Type != "probe":
			p.Observation(`{}`)
		case state == "":
			p.Error("EXECUTION_ERROR", "no state today")
		default:
			p.State(state)
		}
	}
}

func (w *witness) count(op session.Op) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[map[session.Op]string{session.OpReset: "reset", session.OpStep: "step", session.OpTool: "mcp", session.OpState: "state"}[op]]
}

// A step that was not applied is sent again by a caller that trusts the count, however
// often its socket is lost.
func TestTrustedStepIsSentUntilItArrives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := &witness{states: []string{`{"episode_id":"e","step_count":3}`}, losses: 4}
		s := resuming(t, func(c *session.Config, _ *wsock.Options) { c.Resume.Trust = true }, w.play)
		must(t, call(t.Context(), s.Session, session.OpStep))
		if got := w.count(session.OpStep); got != 5 {
			t.Errorf("the step was sent %d times, want once to each of 5 sockets", got)
		}
	})
}

// Several requests in the air: which of them the count tells of is not known.
func TestVerdictOnPipelinedRequests(t *testing.T) {
	for _, after := range []string{`{"episode_id":"e","step_count":3}`, `{"episode_id":"e","step_count":4}`, `{"episode_id":"e","step_count":5}`} {
		bubble(t, func(t *testing.T) {
			steps := 0
			s := resuming(t, func(c *session.Config, _ *wsock.Options) {
				c.Resume.Trust = true
				c.Pipelining = 2
			}, func(p *openenvtest.Peer) {
				if p.Number() > 1 {
					p.Expect("state")
					p.State(after)
					stay(p)
					return
				}
				p.Expect("state")
				p.State(`{"episode_id":"e","step_count":3}`)
				for steps < 2 {
					f, ok := p.Next()
					if !ok {
						return
					}
					if f.Type == "step" {
						steps++
					}
				}
				p.Abort()
			})
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if err := call(t.Context(), s.Session, session.OpStep); verdictOf(err) != inDoubt {
						t.Errorf("after %s: %v, want a doubt", after, err)
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			must(t, call(t.Context(), s.Session, session.OpStep))
		})
	}
}
