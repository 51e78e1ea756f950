package engine

import (
	"context"
	"net/http"

	"github.com/openenv-go/openenv/internal/netx"
)

// Poll polls until the environment at base is healthy or ctx ends.
func Poll(ctx context.Context, base *netx.Base) error {
	client := pollClient()
	defer client.CloseIdleConnections()
	return netx.PollHealth(ctx, client, base, nil, nil)
}

// Healthy asks the environment at base once.
func Healthy(ctx context.Context, base *netx.Base) error {
	client := pollClient()
	defer client.CloseIdleConnections()
	return netx.Health(ctx, client, base, nil)
}

// pollClient follows the proxy rules of the client that comes after it, and no
// redirect: what answers for another is not the container.
func pollClient() *http.Client {
	return &http.Client{
		Transport:     netx.HTTPTransport(&http.Transport{}, netx.ProxyFromEnvironment()),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
