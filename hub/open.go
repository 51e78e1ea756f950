package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/netx"
)

// probeLimit bounds the question whether a server is up. A Space that sleeps takes
// minutes to wake; its container here is there sooner.
const probeLimit = 10 * time.Second

// Open connects to an environment by its name or address, knowing nothing of its
// types:
//
//   - an address, http://host:port or host:port, of a server that answers: that server;
//   - org/space, or the address of its page, of a Space that is up: the Space's own
//     server;
//   - a Space that is not: as FromSpace, a container of its image unless an option says
//     otherwise.
//
// A host without a port and with a path looks like a Space's name: begin it with
// http://.
func Open(ctx context.Context, nameOrURL string, opts ...Option) (*openenv.GenericClient, error) {
	set, err := newSettings(opts)
	if err != nil {
		return nil, fmt.Errorf("hub.Open: %w", err)
	}
	if sp, err := set.parseSpace(nameOrURL); err == nil {
		return openSpace(ctx, sp, set)
	}
	if !strings.ContainsAny(nameOrURL, ":") && nameOrURL != "localhost" {
		return nil, fmt.Errorf("hub.Open: %q is neither a Space, org/space, nor the address of a server, http://host:port", nameOrURL)
	}
	env, err := openURL(ctx, nameOrURL, set)
	if err != nil {
		return nil, fmt.Errorf("hub.Open: %w", err)
	}
	return env, nil
}

// openURL connects to a server that is up. Only a Space's server gets the token.
func openURL(ctx context.Context, address string, set *settings) (*openenv.GenericClient, error) {
	base, err := netx.ParseBase(address)
	if err != nil {
		return nil, err
	}
	var header http.Header
	if isSpaceHost(base.HTTP("/")) {
		header = set.authorization()
	}
	if err := probe(ctx, base, header); err != nil {
		return nil, fmt.Errorf("no environment answers at %s: %w", base, err)
	}
	return connect(ctx, address, header, set)
}

func openSpace(ctx context.Context, sp Space, set *settings) (*openenv.GenericClient, error) {
	address, header := set.serverOf(ctx, sp)
	base, err := netx.ParseBase(address)
	if err == nil {
		err = probe(ctx, base, header)
	}
	if err == nil {
		return connect(ctx, address, header, set)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("hub.Open: space %s: %w", sp, context.Cause(ctx))
	}
	env, failed := start(ctx, openenv.Generic, sp, set)
	if failed != nil {
		return nil, fmt.Errorf("hub.Open: space %s is not up (%w), and could not be started here: %w", sp, err, failed)
	}
	return env, nil
}

func connect(ctx context.Context, address string, header http.Header, set *settings) (*openenv.GenericClient, error) {
	var opts []openenv.Option
	if len(header) > 0 {
		opts = append(opts, openenv.WithHeaders(header))
	}
	env, err := openenv.New(openenv.Generic, address, append(opts, set.client...)...)
	if err != nil {
		return nil, err
	}
	if err := env.Connect(ctx); err != nil {
		return nil, errors.Join(err, env.Close())
	}
	return env, nil
}

func (s *settings) authorization() http.Header {
	if s.token == "" {
		return nil
	}
	return http.Header{"Authorization": {"Bearer " + s.token}}
}

// serverOf is the address of a Space's server, and the header it gets. The Hub knows
// it best, since long names are cut; where it does not say, the rule for names does.
func (s *settings) serverOf(ctx context.Context, sp Space) (address string, header http.Header) {
	address = sp.URL()
	if host := s.askHub(ctx, sp); host != "" {
		address = host
	}
	u, err := url.Parse(address)
	// A Hub of one's own has Spaces of its own, and says where they are.
	if err == nil && (isSpaceHost(u) || s.endpoint != DefaultEndpoint && safe(u)) {
		header = s.authorization()
	}
	return address, header
}

// askHub asks the Hub where a Space's server is, "" if it does not say.
func (s *settings) askHub(ctx context.Context, sp Space) string {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.endpoint+"/api/spaces/"+sp.String(), nil)
	if err != nil {
		return ""
	}
	if safe(req.URL) && s.token != "" {
		req.Header = s.authorization()
	}
	client := httpClient()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var answer struct {
		Host string `json:"host"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&answer) != nil {
		return ""
	}
	return answer.Host
}

// probe asks once whether a server is up.
func probe(ctx context.Context, base *netx.Base, header http.Header) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("no answer within %v", probeLimit))
	defer cancel()
	client := httpClient()
	defer client.CloseIdleConnections()
	err := netx.Health(ctx, client, base, header)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// httpClient follows the environment's proxies, and no redirect: it would take the
// token elsewhere.
func httpClient() *http.Client {
	return &http.Client{
		Transport:     netx.HTTPTransport(&http.Transport{}, netx.ProxyFromEnvironment()),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
