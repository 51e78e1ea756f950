package session

import (
	"github.com/openenv-go/openenv/internal/wire"
)

// State is what a server says of an episode.
type State struct {
	EpisodeID string
	StepCount int
}

// readState reads the reply to a state frame; nil when it has no step count.
func readState(typ string, frame []byte) *State {
	if typ != wire.TypeState {
		return nil
	}
	type counted struct {
		EpisodeID string `json:"episode_id"`
		StepCount *int   `json:"step_count"`
	}
	state, err := wire.DecodeState[counted](frame, wire.Float64)
	if err != nil || state.StepCount == nil {
		return nil
	}
	return &State{state.EpisodeID, *state.StepCount}
}

// A server that does not number requests is asked for its state behind every request
// that may change it: what it says is what was before the next one. Only with that can
// it be told, when a reply was lost, whether the request was applied.

// marks reports whether requests on c are followed by such a question.
func (c *conn) marks() bool { return c.s.cfg.Resume != nil && !c.numbered && c.id != "" }

// newMark is the waiter for the answer.
func (c *conn) newMark() *waiter {
	return &waiter{op: OpProbe, unwanted: true, note: func(o outcome) {
		if o.err == nil && o.buf != nil {
			c.before = readState(o.typ, o.buf.Bytes())
		}
		if c.marked != nil {
			close(c.marked)
			c.marked = nil
		}
	}}
}

// judge gives each stranded request that may have been applied its verdict, now that
// the server has said where the episode is. What is left in s.stranded is to be sent.
func (s *Session) judge(after *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var mutating int
	for _, w := range s.stranded {
		if w.op.mutates() {
			mutating++
		}
	}
	stranded := s.stranded
	s.stranded = nil
	for _, w := range stranded {
		switch {
		case !w.op.mutates():
			s.stranded = append(s.stranded, w)
		case mutating == 1 && applied(w, after):
			s.settle(w, outcome{err: &ReplyLostError{Op: w.op, Cause: ErrReplyLost, State: after}})
		case mutating == 1 && s.cfg.Resume.Trust && w.op == OpStep && unchanged(w, after):
			s.stranded = append(s.stranded, w)
		default:
			s.settle(w, outcome{err: &DoubtError{Op: w.op, Cause: ErrReplyLost, Before: w.before, After: after}})
		}
	}
}

// applied reports that a request was applied, beyond doubt: the step is the one that was
// counted, the reset the one that began another episode.
func applied(w *waiter, after *State) bool {
	switch {
	case w.before == nil || after == nil:
		return false
	case w.op == OpReset:
		return after.EpisodeID != "" && after.EpisodeID != w.before.EpisodeID && after.StepCount == 0
	}
	return after.EpisodeID == w.before.EpisodeID && after.StepCount == w.before.StepCount+1
}

func unchanged(w *waiter, after *State) bool {
	return w.before != nil && after != nil && *after == *w.before
}
