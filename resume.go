package openenv

import (
	"errors"
	"fmt"
	"time"

	"github.com/openenv-go/openenv/internal/session"
)

// WithManagedSession makes sessions over HTTP, and attaches their sockets to them: such
// a session has a [Client.SessionID], outlives its socket, and can be used over HTTP,
// too, with [RPC]. When its socket is lost the next call attaches another one; a Reset,
// Step or tool call that was under way then fails with a *[StepInDoubtError], since it
// may have been applied.
func WithManagedSession() Option {
	return optionFunc(func(s *settings) error { s.managed = true; return nil })
}

// Resume says how long a client tries to come back to a session whose socket was lost.
// The zero value is the default.
type Resume struct {
	// Attempts is how often it tries after each loss; 0: as often as fits into MaxWait.
	Attempts int
	// Backoff is the first pause between two attempts. It doubles up to 5 s, and half of
	// each pause is chance. 0: 100 ms.
	Backoff time.Duration
	// MaxWait bounds the time from the loss to the last attempt. Sockets that are dropped
	// again within 5 s, before they carried a reply, belong to the same loss. 0: 60 s,
	// since a server of the Python package that has not noticed the loss refuses another
	// socket for about 40 s.
	MaxWait time.Duration
	// NumberedOnly resumes on servers that number requests and leaves others with ordinary
	// sessions, which end with their socket. It is for programs that may be killed: the
	// Python server keeps a session that nobody comes back to for ever.
	NumberedOnly bool
}

// Defaults of [Resume].
const (
	DefaultResumeBackoff = 100 * time.Millisecond
	DefaultResumeMaxWait = 60 * time.Second
)

// WithResume lets episodes survive the loss of their socket: the session is a managed
// one ([WithManagedSession]), and when its socket is lost the client attaches another
// one to the same episode, while callers wait within their own ctx. It is tried again
// when the server refuses since it takes the old socket to be alive, and given up when
// the server does not know the session any more: a *[SessionLostError] that matches
// [ErrUnknownSession]. A server that is not the one that has made the session
// (*[WrongReplicaError]) is one more reason to try again, at the first socket, too.
//
// What becomes of a request that was on the wire depends on the server. With one of
// package envserver both sides number the requests: it is applied exactly once and its
// reply is not lost, except one larger than the server keeps, which is a
// *[ReplyLostError]. With any other server nothing is sent twice: the call returns a
// *[ReplyLostError] when the state shows that it was applied, else a
// *[StepInDoubtError]. See docs/surviving-networks.md.
//
// On a server that numbers requests a Reset or Step whose caller leaves is cancelled
// there, and so is one that exceeds the message timeout; the session goes on in both
// cases. On others the state is asked for behind every Reset and Step, which costs a
// second exchange.
func WithResume(r Resume) Option {
	return optionFunc(func(s *settings) error {
		if r.Attempts < 0 || r.Backoff < 0 || r.MaxWait < 0 {
			return fmt.Errorf("WithResume: negative value in %+v", r)
		}
		if r.Backoff == 0 {
			r.Backoff = DefaultResumeBackoff
		}
		if r.MaxWait == 0 {
			r.MaxWait = DefaultResumeMaxWait
		}
		s.resume, s.managed = &r, true
		return nil
	})
}

// WithResumeTrust says that every step of the environment counts exactly one, whatever
// it does. On a server that does not number requests a step is then sent again when the
// count shows that it was not applied. An environment that rejects some actions
// without counting them must not be trusted: a rejected step would be taken for one that
// was not applied.
func WithResumeTrust() Option {
	return optionFunc(func(s *settings) error { s.trust = true; return nil })
}

// WrongReplicaError says that a session was asked for at a server which did not make it:
// behind one address there are several, and requests are not bound to the one that they
// began on. Servers of package envserver say which one answers. See
// docs/surviving-networks.md for how to bind them.
type WrongReplicaError struct {
	Made, Answered string // the identities of the two servers
}

func (e *WrongReplicaError) Error() string {
	return fmt.Sprintf("server %s answered for a session that server %s has made: requests are not bound to one replica", e.Answered, e.Made)
}

// Is says to package session that it is worth to ask again.
func (e *WrongReplicaError) Is(target error) bool { return target == session.ErrOtherServer }

// sameInstance checks that the server which answers for the session is the one that has
// made it.
func (c *core) sameInstance(answered string) error {
	made := c.instance.Load()
	if answered == "" || made == nil || *made == "" || *made == answered {
		return nil
	}
	return &WrongReplicaError{Made: *made, Answered: answered}
}

func checkResume(s *settings) error {
	if s.trust && s.resume == nil {
		return errors.New("WithResumeTrust: it has no meaning without WithResume")
	}
	return nil
}
