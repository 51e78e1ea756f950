package cli

import (
	"bytes"
	"context"
	"errors"

	"github.com/openenv-go/openenv"
)

// resumeReport is how episodes of a server survive the loss of their socket.
type resumeReport struct {
	Support openenv.ResumeSupport `json:"support"`
	Reason  string                `json:"reason,omitempty"` // why it is not known
}

// askResume finds it out. What cannot be found out is part of the report, and no failure.
func askResume(ctx context.Context, client *openenv.GenericClient) *resumeReport {
	support, err := openenv.ProbeResume(ctx, client)
	rep := &resumeReport{Support: support}
	switch {
	case errors.Is(err, openenv.ErrCapacity):
		rep.Reason = "the server has no room for a session"
	case err != nil:
		rep.Reason = oneLine(err.Error())
	}
	return rep
}

// resume says what there is, and what can be known of how long: no server tells it.
func (o *inspectOptions) resume(w *bytes.Buffer, rep *resumeReport) {
	if rep == nil {
		return
	}
	switch rep.Support {
	case openenv.ResumeNumbered:
		o.paragraph(w, "resume", "yes, by numbered requests: no reply is lost and no step is in doubt")
		o.paragraph(w, "lease", "a session without a socket ends, after 2m0s unless the server was told otherwise")
	case openenv.ResumeByState:
		o.paragraph(w, "resume", "yes, by state only: a step that was in the air can stay in doubt")
		o.paragraph(w, "lease", "not known; a server of the Python package keeps a session without a socket for ever unless it was given a session timeout")
	case openenv.ResumeNone:
		o.line(w, "resume", "no: an episode ends with its socket")
	default:
		o.paragraph(w, "resume", "not known: "+rep.Reason)
	}
}
