package relay

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// dialLimit bounds the connection to the target.
const dialLimit = 10 * time.Second

// Relay is a running relay. It is safe for concurrent use.
type Relay struct {
	target   string
	plan     Plan
	listener *net.TCPListener
	ctx      context.Context // of dials and delays; ends with the relay
	cancel   context.CancelFunc
	running  sync.WaitGroup // accept, links, the end that ctx calls for
	log      strikeLog

	mu       sync.Mutex
	weather  weather
	accepted int
	links    map[*link]struct{}
	closed   bool
}

// weather is what happens to every connection.
type weather int

const (
	fair  weather = iota
	black         // bytes are swallowed
	shut          // connections are reset when they arrive
)

// New listens on a free port of 127.0.0.1 and relays each connection to target, a
// host and port; plan may be nil for none. The relay ends with ctx, as with
// [Relay.Close], which the caller calls in any case.
func New(ctx context.Context, target string, plan Plan) (*Relay, error) {
	if err := check(ctx, target); err != nil {
		return nil, fmt.Errorf("relay to %q: %w", target, err)
	}
	if plan == nil {
		plan = None{}
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", target, err)
	}
	r := &Relay{target: target, plan: plan, listener: listener, links: map[*link]struct{}{}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.running.Go(r.accept)
	r.running.Go(func() {
		<-r.ctx.Done()
		r.end()
	})
	return r, nil
}

// check finds a target that no dial could reach, such as a URL.
func check(ctx context.Context, target string) error {
	_, port, err := net.SplitHostPort(target)
	if err != nil {
		return err
	}
	_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return err
}

// Addr returns the host and port where the relay listens.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close ends the relay and all its connections, and returns when no goroutine and no
// socket of it is left. Closing again has no effect.
func (r *Relay) Close() {
	r.cancel()
	r.running.Wait()
}

func (r *Relay) end() {
	_ = r.listener.Close() // it is closed once, here
	r.mu.Lock()
	r.closed = true
	links := r.present()
	r.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// Cut closes all present connections in order, and returns how many there were. Black
// ones are among them: their ends learn now that they are gone.
func (r *Relay) Cut() int { return r.strikeAll(Cut) }

// Abort resets all present connections, and returns how many there were.
func (r *Relay) Abort() int { return r.strikeAll(Abort) }

// Blackhole swallows the bytes of all present and of all new connections, whose
// sockets stay open, until [Relay.Heal]. It returns the number of the present ones.
func (r *Relay) Blackhole() int {
	r.set(black)
	return r.strikeAll(Blackhole)
}

// Refuse resets all new connections until [Relay.Heal]. Present ones go on.
func (r *Relay) Refuse() { r.set(shut) }

// Heal lets new connections through again. A black one stays black: bytes of it are
// missing.
func (r *Relay) Heal() { r.set(fair) }

// Connections returns how many connections have arrived so far.
func (r *Relay) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// Strikes returns the faults done so far, in their order. Those that a test did by hand
// have neither byte nor place.
func (r *Relay) Strikes() []Strike { return r.log.all() }

// Count returns how many faults of the kinds were done so far; without kinds, of all.
func (r *Relay) Count(kinds ...Kind) (n int) {
	for _, s := range r.log.all() {
		if len(kinds) == 0 || slices.Contains(kinds, s.Kind) {
			n++
		}
	}
	return n
}

func (r *Relay) set(w weather) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weather = w
}

func (r *Relay) strikeAll(k Kind) (n int) {
	r.mu.Lock()
	links := r.present()
	r.mu.Unlock()
	for _, l := range links {
		if l.strikeNow(k) {
			n++
		}
	}
	return n
}

// present lists the links in the order of arrival. r.mu is held.
func (r *Relay) present() []*link {
	links := make([]*link, 0, len(r.links))
	for l := range r.links {
		links = append(links, l)
	}
	slices.SortFunc(links, func(a, b *link) int { return a.number - b.number })
	return links
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.AcceptTCP()
		if err != nil {
			return // closed by end
		}
		l, w := r.admit(client)
		if w == shut {
			abort(client)
			continue
		}
		r.running.Go(func() {
			defer r.forget(l)
			l.run(w == black)
		})
	}
}

// admit makes a link for a new connection, and tells the weather it meets.
func (r *Relay) admit(client *net.TCPConn) (*link, weather) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &link{relay: r, number: r.accepted, client: client, over: make(chan struct{})}
	r.accepted++
	if r.closed || r.weather == shut {
		return nil, shut
	}
	r.links[l] = struct{}{}
	return l, r.weather
}

func (r *Relay) forget(l *link) {
	l.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.links, l)
}

// strikeLog is the list of what was done.
type strikeLog struct {
	mu   sync.Mutex
	done []Strike
}

func (l *strikeLog) add(s Strike) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, s)
}

func (l *strikeLog) all() []Strike {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.done)
}
