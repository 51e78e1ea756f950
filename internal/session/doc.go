// Package session keeps one episode on one server session: it owns the socket,
// matches replies to requests by order, hands out turns, decides what a
// cancelled or broken call means for the episode, and never papers over a session
// that is gone. It moves bytes and knows no types; package openenv puts the typed
// client on top.
//
// Three ideas carry it:
//
//   - A turn ([Turn]) is a place in the session's queue. It is taken in the same
//     atomic step as the claim of the execution mode, before any goroutine starts.
//   - A connection (conn) has one reader and a first-in-first-out list of waiters;
//     the n-th reply belongs to the n-th waiter, wanted or not.
//   - A session is dirty once a request that may change the environment was
//     written. When a dirty session ends, it is lost, and says so.
//
// One mutex, [Session.mu], guards all of it; nothing blocks while holding it.
package session

import "time"

// Op is a kind of request.
type Op uint8

const (
	OpReset Op = iota
	OpStep
	OpState
	OpTool     // a JSON-RPC request that may change the environment
	OpToolList // a JSON-RPC request that only reads
	OpProbe    // a state frame that asks whether the server has admitted the session
	OpDefer    // no request of its own: a function that holds the turn
)

var opNames = [...]string{"reset", "step", "state", "tool call", "tool list", "connect", "deferred call"}

func (o Op) String() string { return opNames[o] }

// mutates reports whether the request may change the environment.
func (o Op) mutates() bool { return o == OpReset || o == OpStep || o == OpTool }

// needsEpisode reports whether the request is refused on a lost session.
func (o Op) needsEpisode() bool { return o == OpStep || o == OpState || o == OpTool }

// pipelines reports whether the request may be sent before earlier replies came.
func (o Op) pipelines() bool { return o == OpStep }

// Face is the execution mode that a call claims.
type Face uint8

const (
	FaceNone Face = iota
	FaceBlocking
	FaceAsync
)

func (f Face) String() string { return [...]string{"unclaimed", "blocking", "async"}[f] }

// Retry says how often and how fast a refused or failed dial is repeated. The
// zero value dials once.
type Retry struct {
	Attempts  int // dials in all
	Base, Max time.Duration
}
