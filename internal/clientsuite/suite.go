package clientsuite

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/leak"
)

// Kind is a configuration of the server that a case asks for.
type Kind uint8

const (
	// Echo serves the test environment to at least 80 sessions at once.
	Echo Kind = iota
	// Solo serves the test environment to one session at a time. To close it takes
	// some 30 ms, so that who comes too early is refused every time and not by chance.
	Solo
	// Failing cannot make its environment.
	Failing
	// Small is Echo that takes messages of at most SmallLimit bytes.
	Small
	// Mortal is Echo for one case alone, to be killed. Only asked for with CanKill.
	Mortal
)

func (k Kind) String() string {
	return [...]string{"echo", "solo", "failing", "small", "mortal"}[k]
}

// SmallLimit is the message limit of a Small server.
const SmallLimit = 1 << 20

// Sessions is how many sessions the suite opens at once on an Echo server.
const Sessions = 64

// Target is what the suite runs against.
type Target struct {
	// Start returns a server of that kind, which lives at least as long as t. It is
	// called once in each case, after the leak check has taken its baseline: a server
	// that several cases share is started before Run.
	Start func(t *testing.T, kind Kind) Server

	// Bubble runs each case in a testing/synctest bubble of its own. The servers must
	// be in memory; time is free.
	Bubble bool

	// Large is the size of the large observation in bytes, LargeAction that of the
	// large action.
	Large, LargeAction int

	// UnknownPath is the HTTP status of an upgrade at a path that does not exist.
	UnknownPath int

	// NaNIsNull says that a reward which is not a number is sent as null; otherwise it
	// is the environment's error.
	NaNIsNull bool

	// Interrupts says that a step which sleeps ends with its client.
	Interrupts bool

	// CanKill says that Mortal servers can be had.
	CanKill bool

	// Except names the cases that are not played, and says why: what they hold is not so
	// here. Each must exist.
	Except map[string]string
}

// Server is one server of a Target.
type Server struct {
	URL     string
	Options []openenv.Option // what a client needs to reach it
	Active  func() int       // number of sessions; nil, and then not checked, when only the server knows
	Kill    func()           // ends a Mortal server at once, as kill -9 does
}

// Action is an action of the test environment, as the suite's typed clients see it.
type Action struct {
	Message string `json:"message"`
}

// Observation is an observation of the test environment.
type Observation struct {
	Echoed   string         `json:"echoed"`
	Length   int            `json:"length"`
	Metadata openenv.Object `json:"metadata"`
}

// Spec ties the types together.
var Spec = openenv.Spec[Action, Observation, openenv.State]{Name: "clientsuite"}

// Client is a typed client of the test environment.
type Client = openenv.Client[Action, Observation, openenv.State]

// testCase is one behaviour of the client.
type testCase struct {
	name  string
	kind  Kind
	needs need
	run   func(*play)
}

// need is what a case asks of its target.
type need uint8

const (
	realTime need = 1 << iota // a real network
	fakeTime                  // waits that only a bubble can afford
	interrupts
	kill
)

// missing returns what t lacks for a case, or "".
func (n need) missing(t Target) string {
	switch {
	case n&realTime != 0 && t.Bubble:
		return "a real network"
	case n&fakeTime != 0 && !t.Bubble:
		return "a clock that can be turned"
	case n&interrupts != 0 && !t.Interrupts:
		return "an environment that ends with its client"
	case n&kill != 0 && !t.CanKill:
		return "a server that can be killed"
	}
	return ""
}

// Run runs the suite, each case as a subtest with a leak check of its own. A case
// that the target cannot play is not part of its suite, and named in the log.
func Run(t *testing.T, target Target) {
	t.Helper()
	excepted := 0
	for _, c := range slices.Concat(faceCases, futureCases, episodeCases, errorCases, capacityCases,
		lostCases, cancelCases, manyCases, sizeCases, connectCases) {
		if why, ok := target.Except[c.name]; ok {
			t.Logf("%q is not played here: %s", c.name, why)
			excepted++
			continue
		}
		if lack := c.needs.missing(target); lack != "" {
			t.Logf("%q is not played here, it needs %s", c.name, lack)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if target.Bubble {
				synctest.Test(t, func(t *testing.T) { c.play(t, target) })
				return
			}
			c.play(t, target)
		})
	}
	if excepted < len(target.Except) {
		t.Errorf("%d cases are excepted, and %d of them exist", len(target.Except), excepted)
	}
}

func (c testCase) play(t *testing.T, target Target) {
	leak.Check(t)
	c.run(&play{T: t, target: target, server: target.Start(t, c.kind)})
}
