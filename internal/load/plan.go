package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/openenv-go/openenv"
)

// Plan is one batch of sessions.
type Plan struct {
	URL      string          // of the server
	Header   http.Header     // sent with every request
	Sessions int             // that begin at once, at least 1
	Steps    int             // of each session after its reset
	Action   json.RawMessage // of each step, a JSON object

	// Dials is how many sessions connect at the same time; the others wait for their
	// turn. 0 is DefaultDials. Without a bound the accept queue of a server overflows,
	// and the retransmissions of TCP take seconds.
	Dials int

	// Sources is how many loopback addresses connections to this machine come from:
	// one has about 28,000 ports, and a closed connection keeps its port for a minute.
	// 0 is as many as the sessions need. Other machines are dialled as usual.
	Sources int

	// Hold keeps the sessions open together for this long after their steps; each takes
	// a further step every Every, which is 0 for none. Memory is sampled meanwhile.
	Hold, Every time.Duration

	// Timeout bounds each call. 0 is the client's default.
	Timeout time.Duration

	// Server is the process whose use is measured beside this one's: its number, or 0
	// for the one that listens at URL if it is on this machine and can be seen.
	Server int
}

// DefaultDials keeps a machine busy without filling an accept queue.
const DefaultDials = 128

// validate names the field that is wrong.
func (p *Plan) validate() error {
	switch {
	case p.Sessions < 1:
		return fmt.Errorf("load: %d sessions", p.Sessions)
	case p.Steps < 0, p.Dials < 0, p.Sources < 0, p.Hold < 0, p.Every < 0, p.Timeout < 0:
		return errors.New("load: negative steps, dials, sources or times")
	case p.Sources > maxSources:
		return fmt.Errorf("load: %d source addresses, at most %d", p.Sources, maxSources)
	case p.Steps > 0 && len(p.Action) == 0:
		return errors.New("load: steps without an action")
	}
	return nil
}

// spec leaves everything as the JSON that it is.
var spec = openenv.Spec[json.RawMessage, json.RawMessage, json.RawMessage]{Name: "load"}

type client = openenv.Client[json.RawMessage, json.RawMessage, json.RawMessage]

// open makes the client whose children the sessions are. Nothing is sent.
func (p *Plan) open() (*client, error) {
	opts := []openenv.Option{
		openenv.WithHeaders(p.Header),
		openenv.WithConnectTimeout(time.Minute),
		// A machine at its limit closes late: that shows in the total, and is no failure.
		openenv.WithCloseTimeout(time.Minute),
	}
	if p.Timeout > 0 {
		opts = append(opts, openenv.WithMessageTimeout(p.Timeout), openenv.WithConnectTimeout(p.Timeout))
	}
	if t := sourceTransport(p.URL, p.sources()); t != nil {
		opts = append(opts, openenv.WithHTTPClient(&http.Client{Transport: t}))
	}
	return openenv.New(spec, p.URL, opts...)
}
