package openenv

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"

	"github.com/openenv-go/openenv/internal/rpc"
	"github.com/openenv-go/openenv/internal/session"
)

// ResumeSupport is how a server keeps an episode whose socket is lost.
type ResumeSupport string

// What [ProbeResume] finds.
const (
	// ResumeNumbered: both sides number the requests; nothing is lost or applied twice.
	ResumeNumbered ResumeSupport = "numbered"
	// ResumeByState: the session is kept, and what became of a request in the air is
	// judged by the state.
	ResumeByState ResumeSupport = "by_state"
	// ResumeNone: a session ends with its socket.
	ResumeNone ResumeSupport = "none"
	// ResumeUnknown: it could not be found out.
	ResumeUnknown ResumeSupport = "unknown"
)

// ProbeResume finds out what [WithResume] can do on the server of s. It makes a session
// beside that of s, with an environment of its own, and ends it again; s itself claims
// nothing and takes no turn. The error says why the answer is ResumeUnknown, and is nil
// with every other answer: one that matches [ErrCapacity] is a server without room.
//
// How long a session without a socket is kept is not among the things that a server
// tells.
func ProbeResume(ctx context.Context, s Session) (ResumeSupport, error) {
	defer runtime.KeepAlive(s)
	c := s.sessionCore()
	probe, err := c.newProbe()
	if err != nil {
		return ResumeUnknown, err
	}
	defer probe.discard()
	return probe.resumeSupport(ctx)
}

// newProbe makes a session beside that of c, to be discarded.
func (c *core) newProbe() (*core, error) {
	set := *c.set
	set.interceptors = nil
	set.managed, set.resume = true, &Resume{Attempts: 1, Backoff: DefaultResumeBackoff, MaxWait: DefaultResumeMaxWait}
	probe := newCore(&set, c.host, c)
	if !c.adopt(probe) {
		return nil, c.convert("probe", session.ErrClosed)
	}
	return probe, nil
}

func (c *core) resumeSupport(ctx context.Context) (ResumeSupport, error) {
	if err := c.connect(ctx); err != nil {
		if makesNoSessions(err) {
			return ResumeNone, nil
		}
		return ResumeUnknown, err
	}
	numbered, err := c.sess.Numbered(ctx, session.OpState)
	switch {
	case err != nil:
		return ResumeUnknown, c.convert("probe", err)
	case numbered:
		return ResumeNumbered, nil
	}
	// A server that does not know addresses with a session gives each socket a session
	// of its own; one that does takes no second socket.
	second, err := c.newProbe()
	if err != nil {
		return ResumeUnknown, err
	}
	defer second.discard()
	second.origin.Adopt(c.sessionID())
	err = second.connect(ctx)
	refused, ok := errors.AsType[*ServerError](err)
	switch {
	case ok && refused.Code == CodeSession:
		return ResumeByState, nil
	case err != nil:
		return ResumeUnknown, err
	}
	return ResumeNone, nil
}

// makesNoSessions reports a server that has no method to make a session over HTTP.
func makesNoSessions(err error) bool {
	if answered, ok := errors.AsType[*rpc.Error](err); ok {
		return answered.Code == rpc.CodeNoMethod
	}
	if answered, ok := errors.AsType[*RPCError](err); ok {
		return answered.Code == rpc.CodeNoMethod
	}
	failed, ok := errors.AsType[*ConnectError](err)
	if !ok || !strings.HasSuffix(failed.URL, "/mcp") {
		return false
	}
	switch failed.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}
