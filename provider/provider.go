// Package provider is the contract between a client and whatever runs its
// environment: a process, a container, a cluster. It depends on nothing but the
// standard library, so that anybody can implement it.
package provider

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// ErrGone is matched by the error of a provider whose environment existed and does
// not any more: an expired sandbox, a container removed by somebody else. A client
// reports it at once and does not retry.
var ErrGone = errors.New("environment is gone")

// Provider starts one environment server and stops it. The source (an image, a
// project, a command) is given to the constructor of the implementation; one value
// serves one client. Calls never overlap.
type Provider interface {
	// Start starts the environment and returns where it can be reached. ctx bounds
	// the start only. After an error the caller still calls Stop.
	Start(ctx context.Context) (Endpoint, error)

	// WaitReady returns when the environment serves, or with the reason why it will
	// not; ctx bounds the wait.
	WaitReady(ctx context.Context) error

	// Stop releases everything that Start made. It is idempotent, safe after a failed
	// Start, and keeps its handle when it fails, so that a later Stop can finish.
	Stop(ctx context.Context) error
}

// Endpoint says how to reach an environment.
type Endpoint struct {
	// URLs are base addresses, one per replica, at least one.
	URLs []string
	// Headers are sent with every request, beneath the client's own.
	Headers http.Header
	// Keepalive is advice for the client's pings. An explicit client option wins,
	// nil means that there is no advice.
	Keepalive *Keepalive
}

// Keepalive is advice about WebSocket pings. Interval 0 means off.
type Keepalive struct {
	Interval, Timeout time.Duration
}

// Replicated is implemented by a provider whose set of replicas changes. Endpoints
// is asked at each new session, at most once a second, and after a refusal.
type Replicated interface {
	Endpoints(ctx context.Context) (Endpoint, error)
}
