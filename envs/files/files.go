// Package files is an environment of tools: list, read, write and search over a
// directory that is made for each session and removed with it. No path leads out of
// it: neither "..", nor an absolute one, nor a symbolic link.
package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/mcp"
)

// Spec ties the types together, for both ends: the actions are tool calls.
var Spec = openenv.Spec[mcp.Action, mcp.Observation, openenv.State]{Name: "files"}

// Limits of a session's directory, in bytes and in files. What goes beyond one is an
// error of the call.
const (
	MaxFile   = 1 << 20  // read or written at once
	MaxTotal  = 16 << 20 // of all files together
	MaxFiles  = 1000     // directories count, too
	MaxListed = 1000     // entries in one answer
	MaxHits   = 100      // matches in one answer of a search
)

// Env is one session: its tools and its directory. Calls never overlap, so the limits
// hold without a lock.
type Env struct {
	*mcp.Environment

	dir   string
	space *space
}

// New makes an empty directory below the system's temporary one, and the tools on it.
func New(context.Context) (*Env, error) {
	dir, err := os.MkdirTemp("", "openenv-files-")
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	e := &Env{dir: dir, space: new(space)}
	if e.Environment, err = e.make(); err != nil {
		return nil, fmt.Errorf("files: %w", errors.Join(err, e.remove()))
	}
	return e, nil
}

// ConcurrentSessions reports that each has a directory of its own.
func (*Env) ConcurrentSessions() bool { return true }

func (e *Env) make() (*mcp.Environment, error) {
	if err := e.empty(); err != nil {
		return nil, err
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "files", Version: "1.0.0"}, nil)
	if err := e.space.register(server); err != nil {
		return nil, err
	}
	return mcp.NewEnvironment(server, mcp.WithReset(e.reset))
}

// reset begins an episode with an empty directory.
func (e *Env) reset(context.Context, envserver.ResetParams) (openenv.StepResult[mcp.Observation], error) {
	var res openenv.StepResult[mcp.Observation]
	if err := e.empty(); err != nil {
		return res, fmt.Errorf("files: %w", err)
	}
	res.Observation.Extra = openenv.Object{"message": "The directory is empty."}
	return res, nil
}

// empty gives the tools another directory: what they could not remove stays behind until
// the session ends.
func (e *Env) empty() error {
	before := e.space.root
	inner := filepath.Join(e.dir, rand.Text())
	if err := os.Mkdir(inner, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(inner)
	if err != nil {
		return err
	}
	e.space.root = root
	if before == nil {
		return nil
	}
	return errors.Join(before.Close(), os.RemoveAll(before.Name()))
}

// Close ends the tools and removes the directory.
func (e *Env) Close() error { return errors.Join(e.Environment.Close(), e.remove()) }

func (e *Env) remove() error {
	var err error
	if e.space.root != nil {
		err = e.space.root.Close()
	}
	return errors.Join(err, os.RemoveAll(e.dir))
}
