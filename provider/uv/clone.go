package uv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openenv-go/openenv/internal/proc"
)

// gitGrace is how long git has to remove its temporary files.
const gitGrace = 2 * time.Second

// limitError is the end of the time to clone.
type limitError time.Duration

func (e limitError) Error() string      { return fmt.Sprintf("not done within %v", time.Duration(e)) }
func (limitError) Is(target error) bool { return target == context.DeadlineExceeded }

// clone makes a temporary directory with the source's files at its revision. After an
// error there is no directory, unless the error says that it could not be removed.
func clone(ctx context.Context, src *source, set *settings) (dir string, err error) {
	git, err := find("git", "", "install git, or give the directory of a project")
	if err != nil {
		return "", err
	}
	dir, err = os.MkdirTemp("", "openenv-uv-")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, set.cloneTimeout, limitError(set.cloneTimeout))
	defer cancel()
	rev := src.rev
	if rev == "" {
		rev = "HEAD"
	}
	g := &gitRunner{path: git, dir: dir, src: src, log: set.log, env: gitEnv(os.Environ(), src)}
	for _, args := range [][]string{
		// Without templates there are no hooks. A fetch takes any kind of revision.
		{"init", "--quiet", "--template="},
		{"fetch", "--quiet", "--depth", "1", "--no-tags", "--", src.url.String(), rev},
		{"checkout", "--quiet", "--detach", "FETCH_HEAD"},
	} {
		if err := g.run(ctx, args); err != nil {
			return "", errors.Join(fmt.Errorf("clone %s: %w", src, err), os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// gitRunner runs git in the clone.
type gitRunner struct {
	path, dir string
	src       *source
	env       []string
	log       func(string)
}

func (g *gitRunner) run(ctx context.Context, args []string) error {
	cfg := proc.Config{Path: g.path, Args: args, Dir: g.dir, Env: g.env, Orphan: gitGrace, Scratch: g.dir}
	if g.log != nil {
		cfg.Log = func(line string) { g.log(g.src.redact(line)) }
	}
	p, err := proc.Start(cfg)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	// A helper of git's may be left in either case. This takes a moment that a context
	// which has ended does not have.
	if err := p.Stop(context.WithoutCancel(ctx), gitGrace); err != nil {
		return err
	}
	exit := p.Exit()
	switch {
	case exit == proc.Exit{}:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	said := strings.Join(strings.Fields(g.src.redact(p.Tail())), " ")
	return fmt.Errorf("git %s: %v: %s", args[0], exit, said)
}

// gitEnv is env for a git that asks nobody, works in its own directory and knows the
// credentials. They go by the environment: arguments are seen by every user.
func gitEnv(env []string, src *source) []string {
	count := 0
	own := []string{
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=true", // a program that answers nothing
		"SSH_ASKPASS_REQUIRE=never",
		"GCM_INTERACTIVE=never",
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes",
		"LC_ALL=C",
	}
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "GIT_CONFIG_COUNT":
			count, _ = strconv.Atoi(value) // git refuses what is not a number
		case "GIT_SSH_COMMAND", "GIT_SSH":
			own = slices.DeleteFunc(own, func(e string) bool { return strings.HasPrefix(e, "GIT_SSH_COMMAND=") })
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_SHALLOW_FILE":
			return true // set where this program runs inside a hook of git's
		}
		return false
	})
	if src.auth != "" {
		n := strconv.Itoa(count)
		own = append(own,
			"GIT_CONFIG_KEY_"+n+"=http."+src.url.Scheme+"://"+src.url.Host+"/.extraHeader",
			"GIT_CONFIG_VALUE_"+n+"=Authorization: "+src.auth,
			"GIT_CONFIG_COUNT="+strconv.Itoa(count+1))
	}
	return append(env, own...)
}
