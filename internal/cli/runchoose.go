package cli

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/hub"
)

// The providers of run, as --provider has them.
const (
	byProcess = "process"
	byUV      = "uv"
	byDocker  = "docker"
	bySwarm   = "swarm"
	byHub     = "hub"
)

var providerNames = []string{byProcess, byUV, byDocker, bySwarm, byHub}

// source is what run is to start.
type source struct {
	kind    string    // the provider's name
	text    string    // the image, the directory or the repository
	command []string  // of a process
	space   hub.Space // for hub, and for uv when it is a Space's repository
	shown   string    // what it is called in output, without its secrets
}

// choose finds the provider that fits the arguments; dash is how many of them come
// before a --, or -1.
func (o *runOptions) choose(ctx context.Context, args []string, dash int) (*source, error) {
	if o.provider != "" && !slices.Contains(providerNames, o.provider) {
		return nil, usagef("--provider: %q is none of %s", o.provider, strings.Join(providerNames, ", "))
	}
	switch {
	case dash > 0:
		return nil, usagef("run: a command is run instead of %q, not in it: leave one of them out", clip(shownSource(args[0])))
	case dash == 0 && (len(args) == 0 || args[0] == ""):
		return nil, usagef("run: the command after -- is missing")
	case dash == 0 && o.provider != "" && o.provider != byProcess:
		return nil, usagef("--provider: %s runs no command, only process does", o.provider)
	case dash == 0:
		return &source{kind: byProcess, command: args, shown: filepath.Base(args[0])}, nil // arguments can hold secrets
	case len(args) == 0 || args[0] == "":
		return nil, usagef("run: what to run is missing: an image, org/space, git+URL, a directory, or -- and a command")
	case len(args) > 1:
		return nil, usagef("run: one image, Space or project is wanted, not %d arguments (a command comes after --)", len(args))
	case o.provider == byProcess:
		return nil, usagef("--provider: process runs a command, which comes after --: oenv run -- %s", clip(shownSource(args[0])))
	}
	return o.chooseFor(ctx, args[0])
}

func (o *runOptions) chooseFor(ctx context.Context, text string) (*source, error) {
	s := &source{kind: o.provider, text: text, shown: shownSource(text)}
	space, isSpace := spaceShape(text)
	isGit := strings.HasPrefix(text, "git+")
	isDir := directory(text)
	isProject := isDir && exists(filepath.Join(text, "pyproject.toml"))
	switch {
	case s.kind == byHub && !isSpace:
		return nil, usagef("--provider: hub runs a Space, org/space, and %q is none", clip(s.shown))
	case s.kind == byUV && isSpace && !isDir, s.kind == byHub:
		s.space = space
	case s.kind == byUV && !isGit && !isDir:
		return nil, usagef("--provider: uv runs a directory, git+URL or org/space, and %q is none", clip(s.shown))
	case s.kind == byDocker || s.kind == bySwarm:
		if isGit || pathShape(text) {
			return nil, usagef("--provider: %s runs an image, and %q is none; uv would fit", s.kind, clip(s.shown))
		}
	case s.kind == byUV:
	case isGit, isProject:
		s.kind = byUV
	case pathShape(text) && isDir:
		return nil, usagef("run: %s has no pyproject.toml: it is no Python project (a program of yours comes after --)", s.shown)
	case pathShape(text):
		return nil, usagef("run: there is no directory %s (a program of yours comes after --)", s.shown)
	case strings.Contains(text, "://"):
		return nil, usagef("run: %s is an address: that of a repository begins with git+, and a server that runs already needs no start", clip(s.shown))
	case isSpace && !imageThere(ctx, text):
		s.kind, s.space = byHub, space
	default:
		s.kind = byDocker
	}
	return s, nil
}

// spaceShape reports whether text can be a Space's name and is no image of a registry.
func spaceShape(text string) (hub.Space, bool) {
	org, _, ok := strings.Cut(text, "/")
	if !ok || org == "localhost" || strings.ContainsAny(org, ".:") {
		return hub.Space{}, false
	}
	space, err := hub.ParseSpace(text)
	return space, err == nil
}

// pathShape reports whether text can only be a path.
func pathShape(text string) bool {
	return filepath.IsAbs(text) || text == "." || text == ".." || strings.HasPrefix(text, "."+string(filepath.Separator)) ||
		strings.HasPrefix(text, ".."+string(filepath.Separator)) || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../")
}

func directory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// imageLimit bounds the question whether an image is there.
const imageLimit = 5 * time.Second

// imageThere reports whether the engine has an image of that name. Without an engine
// there is none, which is told when something is to run.
func imageThere(ctx context.Context, ref string) bool {
	c, err := client.New(client.FromEnv)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, imageLimit)
	defer cancel()
	_, err = c.ImageInspect(ctx, ref)
	return err == nil
}

// shownSource is text without the credentials that an address can have.
func shownSource(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return oneLine(text)
	}
	u, err := url.Parse(strings.TrimPrefix(text, "git+"))
	if err != nil {
		return oneLine(scheme) + "://…"
	}
	if u.User == nil || strings.HasSuffix(scheme, "ssh") {
		return oneLine(text)
	}
	_, rest, _ = strings.Cut(rest, "@")
	if u.Host != "" && !strings.HasPrefix(rest, u.Host) { // an @ in the credentials
		rest = u.Host + u.EscapedPath()
	}
	return oneLine(scheme + "://" + rest)
}
