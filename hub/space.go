package hub

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

const (
	// DefaultRegistry is where the images of Spaces are.
	DefaultRegistry = "registry.hf.space"
	// DefaultTag is the image of a Space's present state.
	DefaultTag = "latest"
	// DefaultEndpoint is the Hub, unless HF_ENDPOINT says another.
	DefaultEndpoint = "https://huggingface.co"

	spaceDomain = ".hf.space"
)

// Space is the name of a Space.
type Space struct{ Org, Name string }

// ParseSpace reads org/space or the address of a Space's page at the default Hub.
func ParseSpace(s string) (Space, error) {
	return parseSpace(s, DefaultEndpoint)
}

var spacePart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}$`)

func parseSpace(s, endpoint string) (Space, error) {
	name := strings.TrimSpace(s)
	for _, page := range []string{endpoint + "/spaces/", DefaultEndpoint + "/spaces/"} {
		if rest, ok := strings.CutPrefix(name, page); ok {
			name = strings.TrimSuffix(rest, "/")
		}
	}
	org, space, ok := strings.Cut(name, "/")
	if !ok || !spacePart.MatchString(org) || !spacePart.MatchString(space) {
		return Space{}, fmt.Errorf("%q is not the name of a Space: org/space", s)
	}
	return Space{Org: org, Name: space}, nil
}

func (s Space) String() string { return s.Org + "/" + s.Name }

// Slug is the Space's name as a host and in the registry: lower case, everything
// that is not a letter or a digit a hyphen.
func (s Space) Slug() string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s.Org+"-"+s.Name))
}

// Image is the Space's image.
func (s Space) Image(registry, tag string) string {
	return registry + "/" + s.Slug() + ":" + tag
}

// URL is where the Space's own server is.
func (s Space) URL() string { return "https://" + s.Slug() + spaceDomain }

// Git is the Space's repository, as provider/uv takes it.
func (s Space) Git(endpoint string) string { return "git+" + endpoint + "/spaces/" + s.String() }

// isSpaceHost reports whether u is a Space's server, reached so that a token is safe.
func isSpaceHost(u *url.URL) bool {
	return u.Scheme == "https" && strings.HasSuffix(strings.ToLower(u.Hostname()), spaceDomain)
}
