// Package engine is what the container providers share: the connection to a
// container engine, images and the accounts they are pulled with, names that are
// accepted and unique, labels that say who started a thing, and the tail of a log.
//
// It speaks the engine's API; no command's output is parsed.
package engine

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/netx"
)

// Engine is a connection to a container engine. Nothing is sent before the first call.
type Engine struct {
	*client.Client
}

// Close gives up idle connections. The engine can be used again.
func (e *Engine) Close() { _ = e.Client.Close() }

// Connect prepares a connection to host, such as unix:///var/run/docker.sock or
// tcp://127.0.0.1:2375. An empty host is the one that DOCKER_HOST names, together with
// the other variables of the docker command, or else the default socket.
func Connect(host string) (*Engine, error) {
	opts := []client.Opt{client.FromEnv}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	} else {
		host = os.Getenv(client.EnvOverrideHost)
	}
	if strings.HasPrefix(host, "ssh://") {
		return nil, errors.New("engine: ssh:// is not supported: forward its socket (ssh -L) and name that one")
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return &Engine{c}, nil
}

// RemoteHost is the engine's host where that is another machine, else "": a port that
// it publishes on 127.0.0.1 can be reached from here only if "".
func (e *Engine) RemoteHost() string {
	u, err := url.Parse(e.DaemonHost())
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "tcp", "http", "https":
		if host := u.Hostname(); host != "" && !netx.IsLoopback(host) {
			return host
		}
	}
	return ""
}

// Explain adds to an error that no engine answers, what could be done about it.
// The request's address, which says nothing to anybody, is left out of any error.
func (e *Engine) Explain(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if err == nil || !client.IsErrConnectionFailed(err) {
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
			return err
		}
	}
	return &unreachableError{host: e.DaemonHost(), err: err}
}

// unreachableError is one line where the client's own has a paragraph.
type unreachableError struct {
	host string
	err  error
}

func (e *unreachableError) Error() string {
	reason := "it does not answer"
	if op, ok := errors.AsType[*net.OpError](e.err); ok && op.Err != nil {
		reason = op.Err.Error()
	}
	return fmt.Sprintf("no container engine at %s (%s): start it, or set DOCKER_HOST", e.host, reason)
}

func (e *unreachableError) Unwrap() error { return e.err }

// IsNotFound reports whether the engine knows no such thing.
func IsNotFound(err error) bool { return errdefs.IsNotFound(err) }

// IsConflict reports whether the engine refuses because of something in the way.
func IsConflict(err error) bool { return errdefs.IsConflict(err) }

// InUse reports whether the engine refuses to remove something that others use.
func InUse(err error) bool {
	return errdefs.IsPermissionDenied(err) || errdefs.IsConflict(err) || errdefs.IsFailedPrecondition(err)
}
