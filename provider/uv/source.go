package uv

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// source is where a project is: a directory or a repository.
type source struct {
	dir string // of a local project

	url  *url.URL // of a repository, without what is secret
	rev  string   // empty: the default branch
	sub  string   // directory in the repository
	auth string   // an HTTP Authorization, secret

	secrets []string
}

func (s *source) git() bool { return s.url != nil }

// String is the source for errors and logs.
func (s *source) String() string {
	if !s.git() {
		return s.dir
	}
	text := "git+" + s.url.String()
	if s.rev != "" {
		text += "@" + s.rev
	}
	return text
}

// within is the project's directory in a clone.
func (s *source) within(clone string) string { return filepath.Join(clone, s.sub) }

// redact removes what is secret from the text of another program.
func (s *source) redact(text string) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, "…")
	}
	return text
}

// parseSource reads what New was given. Its errors show nothing of an address with
// credentials in it.
func parseSource(raw string) (*source, error) {
	address, isGit := strings.CutPrefix(raw, "git+")
	switch {
	case raw == "":
		return nil, wrong("source", "no directory and no git+URL is given")
	case isGit:
		return parseGit(address)
	case strings.Contains(raw, "://"):
		return nil, wrong("source", "the address of a repository begins with git+")
	}
	dir, err := filepath.Abs(raw)
	if err != nil {
		return nil, wrong("source", "%w", err)
	}
	return &source{dir: dir}, nil
}

func parseGit(address string) (*source, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, wrong("source", "malformed address of a repository") // err would show it
	}
	s := &source{url: &url.URL{Scheme: strings.ToLower(u.Scheme), Host: u.Host}}
	switch s.url.Scheme {
	case "https", "http", "ssh", "git":
		if u.Hostname() == "" {
			return nil, wrong("source", "the address of a repository has no host")
		}
	case "file":
	default:
		return nil, wrong("source", "the scheme of a repository is none of https, http, ssh, git, file")
	}
	if u.RawQuery != "" {
		return nil, wrong("source", "the address of a repository has a query: credentials go before the host")
	}
	if err := s.readFragment(u.Fragment); err != nil {
		return nil, err
	}
	if err := s.readUser(u.User); err != nil {
		return nil, err
	}
	// As in a requirement of pip, the last @ begins the revision. One that belongs to
	// the path is written %40.
	path := u.EscapedPath()
	if i := strings.LastIndexByte(path, '@'); i >= 0 {
		s.rev, err = url.PathUnescape(path[i+1:])
		if err != nil || !validRevision(s.rev) {
			return nil, wrong("source", "%q cannot be a revision", path[i+1:])
		}
		path = path[:i]
	}
	if strings.Trim(path, "/") == "" {
		return nil, wrong("source", "the address of a repository has no path")
	}
	s.url.Path, err = url.PathUnescape(path)
	if err != nil {
		return nil, wrong("source", "malformed address of a repository")
	}
	s.url.RawPath = path
	return s, nil
}

func (s *source) readFragment(fragment string) error {
	if fragment == "" {
		return nil
	}
	sub, ok := strings.CutPrefix(fragment, "subdirectory=")
	if !ok || !filepath.IsLocal(filepath.FromSlash(sub)) {
		return wrong("source", "the fragment of a repository's address is not subdirectory=path")
	}
	s.sub = filepath.FromSlash(sub)
	return nil
}

// readUser takes the credentials out of the address. A user alone is a token, but for
// ssh, where it is part of the address.
func (s *source) readUser(user *url.Userinfo) error {
	if user == nil {
		return nil
	}
	password, has := user.Password()
	switch s.url.Scheme {
	case "ssh":
		if has {
			return wrong("source", "a password has no use with ssh")
		}
		s.url.User = user
		return nil
	case "https", "http":
	default:
		return wrong("source", "credentials have no use with the scheme %s", s.url.Scheme)
	}
	basic := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
	s.auth = "Basic " + basic
	secret := password
	if !has {
		secret = user.Username()
	}
	for _, form := range []string{basic, user.String(), secret, url.QueryEscape(secret), url.PathEscape(secret)} {
		if form != "" {
			s.secrets = append(s.secrets, form)
		}
	}
	return nil
}

// validRevision refuses what git would take for an option or for more than one
// reference.
func validRevision(rev string) bool {
	return rev != "" && !strings.HasPrefix(rev, "-") && !strings.HasPrefix(rev, "+") &&
		!strings.ContainsAny(rev, " :?*[\\^~") && !strings.Contains(rev, "..") &&
		!strings.ContainsFunc(rev, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// project is a directory that uv can run.
type project struct{ dir, app string }

// readProject checks what is in dir. src is for the errors: nobody knows a clone.
func readProject(dir string, src *source) (*project, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && src.git():
		return nil, wrong("source", "%s has no directory %q", src, filepath.ToSlash(src.sub))
	case errors.Is(err, fs.ErrNotExist):
		return nil, wrong("source", "directory %s does not exist: %w", src, fs.ErrNotExist)
	case err != nil:
		return nil, wrong("source", "%w", err)
	case !info.IsDir():
		return nil, wrong("source", "%s is not a directory", src)
	}
	if _, err := os.Stat(filepath.Join(dir, "pyproject.toml")); err != nil {
		return nil, wrong("source", "%s has no pyproject.toml: it is not a project of uv's", src)
	}
	app, err := readApp(filepath.Join(dir, "openenv.yaml"))
	if err != nil {
		return nil, err
	}
	return &project{dir: dir, app: app}, nil
}

// readApp returns the application that openenv.yaml names, a top-level key with a
// plain value, or the default.
func readApp(manifest string) (string, error) {
	content, err := os.ReadFile(manifest)
	if errors.Is(err, fs.ErrNotExist) {
		return DefaultApp, nil
	}
	if err != nil {
		return "", wrong("source", "%w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		value, ok := strings.CutPrefix(lines.Text(), "app:")
		if !ok {
			continue
		}
		value, _, _ = strings.Cut(value, " #")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		if !validApp(value) {
			return "", wrong("source", "openenv.yaml: app %q is not module:attribute", value)
		}
		return value, nil
	}
	return DefaultApp, nil
}
