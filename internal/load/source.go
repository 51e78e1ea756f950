package load

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"sync/atomic"
)

const (
	maxSources       = 200  // 127.0.0.2 to 127.0.0.201
	sessionsOfSource = 4096 // a few batches within a minute stay below the ports there are
)

func (p *Plan) sources() int {
	if p.Sources > 0 {
		return p.Sources
	}
	return min(maxSources, 1+p.Sessions/sessionsOfSource)
}

// sourceTransport makes connections to this machine from several of its loopback
// addresses in turn. It is nil where that is not wanted or not possible: for another
// machine, for IPv6, which has one loopback address, and where the system gives the
// others to no interface.
func sourceTransport(target string, sources int) *http.Transport {
	u, err := url.Parse(target)
	if err != nil || sources < 2 || runtime.GOOS != "linux" {
		return nil
	}
	ip := net.ParseIP(u.Hostname())
	if ip == nil || ip.To4() == nil || !ip.IsLoopback() {
		return nil
	}
	var next atomic.Uint32
	return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		last := byte(2 + next.Add(1)%uint32(sources))
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, last)}}
		return d.DialContext(ctx, network, addr)
	}}
}
