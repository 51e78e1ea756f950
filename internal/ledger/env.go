package ledger

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
)

// Kind is how an environment counts its steps.
type Kind string

// The kinds, by the names that the Python peer has for them.
const (
	Counts   Kind = "ledger"         // one for each step
	Rejects  Kind = "ledger-reject"  // one for each move; it fails a bad action, which it neither applies nor counts
	Two      Kind = "ledger-two"     // two for each step, as with an opponent's move
	NoCounts Kind = "ledger-nocount" // its state has no step_count
)

// Kinds lists them all.
func Kinds() []Kind { return []Kind{Counts, Rejects, Two, NoCounts} }

// The values of Action.Op.
const (
	Move = "move"
	Bad  = "bad" // rejected by [Rejects]; the others take it for a move
)

// Action is one step; its id is the client's choice.
type Action struct {
	ID int    `json:"id"`
	Op string `json:"op"`
}

// Observation answers a step with its own id, and a reset with -1.
type Observation struct {
	ID    int `json:"id"`
	Total int `json:"total"` // of steps applied in this episode
}

// Spec is for clients of every kind. A state without a count decodes as one of 0.
var Spec = openenv.Spec[Action, Observation, openenv.State]{Name: "ledger"}

// uncounted is the state of [NoCounts].
type uncounted struct {
	EpisodeID string `json:"episode_id"`
}

// Server is an environment server that shows its ledger on [Route].
type Server struct {
	*envserver.Server
	Ledger *Ledger
}

// New makes a server of one kind.
func New(kind Kind, opts ...envserver.Option) (*Server, error) {
	l := new(Ledger)
	var srv *envserver.Server
	var err error
	switch kind {
	case Counts, Rejects, Two:
		srv, err = envserver.New(Spec, func(context.Context) (*counting, error) { return &counting{newEnv(kind, l)}, nil }, opts...)
	case NoCounts:
		spec := openenv.Spec[Action, Observation, uncounted]{Name: Spec.Name}
		srv, err = envserver.New(spec, func(context.Context) (*silent, error) { return &silent{newEnv(kind, l)}, nil }, opts...)
	default:
		err = fmt.Errorf("no ledger environment is called %q", kind)
	}
	if err != nil {
		return nil, err
	}
	return &Server{srv, l}, nil
}

// ServeHTTP serves the protocol's routes and the ledger's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == Route {
		s.Ledger.ServeHTTP(w, r)
		return
	}
	s.Server.ServeHTTP(w, r)
}

// env is one episode of any kind.
type env struct {
	kind   Kind
	ledger *Ledger
	state  openenv.State
	total  int
}

func newEnv(kind Kind, l *Ledger) *env {
	return &env{kind: kind, ledger: l, state: openenv.State{EpisodeID: rand.Text()}}
}

// Reset starts an episode.
func (e *env) Reset(_ context.Context, p envserver.ResetParams) (openenv.StepResult[Observation], error) {
	e.state, e.total = openenv.State{EpisodeID: p.EpisodeID}, 0
	if e.state.EpisodeID == "" {
		e.state.EpisodeID = rand.Text()
	}
	e.ledger.write(e.state.EpisodeID, func(ep *Episode) { ep.Resets++ })
	return openenv.StepResult[Observation]{Observation: Observation{ID: -1}}, nil
}

// Step applies an action and enters it.
func (e *env) Step(_ context.Context, a Action) (openenv.StepResult[Observation], error) {
	switch {
	case a.Op != Move && a.Op != Bad:
		return openenv.StepResult[Observation]{}, fmt.Errorf("op %q is neither %s nor %s", a.Op, Move, Bad)
	case a.Op == Bad && e.kind == Rejects:
		return openenv.StepResult[Observation]{}, fmt.Errorf("action %d is rejected", a.ID)
	}
	e.total++
	e.state.StepCount++
	if e.kind == Two {
		e.state.StepCount++
	}
	e.ledger.write(e.state.EpisodeID, func(ep *Episode) { ep.Steps = append(ep.Steps, a.ID) })
	return openenv.StepResult[Observation]{Observation: Observation{ID: a.ID, Total: e.total}}, nil
}

// counting has the usual state.
type counting struct{ *env }

// State returns the episode's name and its count.
func (e *counting) State(context.Context) (openenv.State, error) { return e.state, nil }

// ConcurrentSessions is asked of a zero value, which has no env.
func (*counting) ConcurrentSessions() bool { return true }

// silent has a state without a count.
type silent struct{ *env }

// State returns the episode's name.
func (e *silent) State(context.Context) (uncounted, error) {
	return uncounted{e.state.EpisodeID}, nil
}

// ConcurrentSessions is asked of a zero value, which has no env.
func (*silent) ConcurrentSessions() bool { return true }
