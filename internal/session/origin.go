package session

import (
	"context"
	"net/url"
)

// Fate is what the end of a socket means for the session behind it.
type Fate uint8

const (
	// FateGone: the session ended with its socket.
	FateGone Fate = iota
	// FateKept: the server still holds the session; the next dial attaches to it.
	FateKept
)

// Origin says where a server session comes from and what its socket's end means.
// A plain session is made and ended by its socket. A managed one is made over
// HTTP and outlives sockets.
//
// Calls on one Origin never overlap, except that Lost may be called during an
// Acquire; Lost must not block.
type Origin interface {
	// Acquire returns the query parameters of the next dial.
	Acquire(ctx context.Context) (url.Values, error)
	// Lost reports the end of a socket and decides what became of the session.
	Lost(cause error) Fate
	// Release ends the session when the client closes or disconnects.
	Release(ctx context.Context) error
}

// socketOrigin is a session that lives and dies with its socket.
type socketOrigin struct{}

func (socketOrigin) Acquire(context.Context) (url.Values, error) { return url.Values{}, nil }
func (socketOrigin) Lost(error) Fate                             { return FateGone }
func (socketOrigin) Release(context.Context) error               { return nil }
