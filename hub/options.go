package hub

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/docker"
	"github.com/openenv-go/openenv/provider/uv"
)

// Option configures FromSpace and Open.
type Option interface{ apply(s *settings) error }

type optionFunc func(*settings) error

func (f optionFunc) apply(s *settings) error { return f(s) }

type settings struct {
	endpoint string
	token    string
	registry string
	tag      string
	docker   []docker.Option
	uv       *[]uv.Option // nil: Docker
	build    func(Source) provider.Provider
	client   []openenv.Option
}

func newSettings(opts []Option) (*settings, error) {
	s := &settings{
		endpoint: strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), DefaultEndpoint), "/"),
		token:    strings.TrimSpace(os.Getenv("HF_TOKEN")),
		registry: DefaultRegistry, tag: DefaultTag,
	}
	u, err := url.Parse(s.endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("HF_ENDPOINT is not an address of a Hub") // which it may show a secret of
	}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("nil option")
		}
		if err := o.apply(s); err != nil {
			return nil, err
		}
	}
	if s.uv != nil && (s.build != nil || len(s.docker) > 0) || s.build != nil && len(s.docker) > 0 {
		return nil, errors.New("WithDocker, WithUV and WithProvider exclude each other")
	}
	return s, nil
}

func (s *settings) parseSpace(name string) (Space, error) { return parseSpace(name, s.endpoint) }

// WithTag chooses an image other than the latest.
func WithTag(tag string) Option {
	return optionFunc(func(s *settings) error {
		if tag == "" {
			return errors.New("WithTag: tag is empty")
		}
		s.tag = tag
		return nil
	})
}

// WithRegistry takes the images from another registry, under the same names.
func WithRegistry(host string) Option {
	return optionFunc(func(s *settings) error {
		if host == "" || strings.Contains(host, "://") {
			return fmt.Errorf("WithRegistry: %q is not a host", host)
		}
		s.registry = strings.TrimRight(host, "/")
		return nil
	})
}

// WithToken is used instead of HF_TOKEN. An empty token is none.
func WithToken(token string) Option {
	return optionFunc(func(s *settings) error { s.token = token; return nil })
}

// WithDocker configures the container.
func WithDocker(opts ...docker.Option) Option {
	return optionFunc(func(s *settings) error { s.docker = append(s.docker, opts...); return nil })
}

// WithUV runs the Space's repository by uv, without Docker. Its code then has the
// rights of this program.
func WithUV(opts ...uv.Option) Option {
	return optionFunc(func(s *settings) error { s.uv = &opts; return nil })
}

// WithProvider runs the Space where build says, for instance on a swarm:
//
//	hub.WithProvider(func(src hub.Source) provider.Provider { return swarm.New(src.Image) })
func WithProvider(build func(Source) provider.Provider) Option {
	return optionFunc(func(s *settings) error {
		if build == nil {
			return errors.New("WithProvider: nil function")
		}
		s.build = build
		return nil
	})
}

// WithClient gives options to the client.
func WithClient(opts ...openenv.Option) Option {
	return optionFunc(func(s *settings) error { s.client = append(s.client, opts...); return nil })
}

// safe reports whether a token may be sent to u: nobody else can read it on the way.
func safe(u *url.URL) bool { return u.Scheme == "https" || netx.IsLoopback(u.Hostname()) }
