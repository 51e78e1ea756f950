package envserver_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/clientsuite"
	"github.com/openenv-go/openenv/openenvtest"
)

// The client's suite over real sockets.
func TestClientSuiteOverLoopback(t *testing.T) { clientsuite.Run(t, loopbackTarget(nil)) }

// The same with clients that resume.
func TestClientSuiteOverLoopbackResumed(t *testing.T) {
	// The wait is short, since the suite kills a server that does not come back.
	clientsuite.Run(t, loopbackTarget(resumed, openenv.WithResume(openenv.Resume{MaxWait: 300 * time.Millisecond})))
}

// resumed is what is not so, by design, for clients that resume: what costs others their
// session does not cost them theirs. TestResumedClientKeepsItsSession has what is so.
var resumed = map[string]string{
	"cancel in mid-step":                         "the call is cancelled on the server, the session goes on",
	"cancel in mid-step reaches the environment": "the call is cancelled on the server, the session goes on",
	"cancel of a future in mid-step":             "the call is cancelled on the server, the session goes on",
	"message timeout":                            "the call is cancelled on the server, the session goes on",
	"an observation above the client's limit":    "the step was applied, and the session goes on",
	"an action above the server's limit":         "the step was not applied, and the session goes on",
}

func loopbackTarget(except map[string]string, opts ...openenv.Option) clientsuite.Target {
	return clientsuite.Target{
		Start: func(t *testing.T, kind clientsuite.Kind) clientsuite.Server {
			if kind == clientsuite.Mortal {
				mortal := startMortal(t)
				mortal.Options = opts
				return mortal
			}
			srv := newSuiteServer(t, kind)
			s := openenvtest.ServeLoopback(t, srv)
			return clientsuite.Server{URL: s.URL(), Active: srv.ActiveSessions, Options: opts}
		},
		Large:       50 << 20,
		LargeAction: 8 << 20,
		UnknownPath: http.StatusNotFound,
		Interrupts:  true,
		CanKill:     true,
		Except:      except,
	}
}

// The client's suite in memory, where time is free. Large messages are smaller here:
// every byte goes through a pipe that holds none.
func TestClientSuiteInMemory(t *testing.T) { clientsuite.Run(t, memoryTarget(nil)) }

// The same with clients that resume.
func TestClientSuiteInMemoryResumed(t *testing.T) {
	except := maps.Clone(resumed)
	except["the default message timeout"] = resumed["message timeout"]
	clientsuite.Run(t, memoryTarget(except, openenv.WithResume(openenv.Resume{})))
}

func memoryTarget(except map[string]string, opts ...openenv.Option) clientsuite.Target {
	return clientsuite.Target{
		Start: func(t *testing.T, kind clientsuite.Kind) clientsuite.Server {
			srv := newSuiteServer(t, kind)
			s := openenvtest.Serve(t, srv)
			return clientsuite.Server{URL: s.URL(), Options: append([]openenv.Option{s.Option()}, opts...), Active: srv.ActiveSessions}
		},
		Bubble:      true,
		Large:       4 << 20,
		LargeAction: 2 << 20,
		UnknownPath: http.StatusNotFound,
		Interrupts:  true,
		Except:      except,
	}
}

func newSuiteServer(t *testing.T, kind clientsuite.Kind) *envserver.Server {
	t.Helper()
	build := func(context.Context) (*suiteEnv, error) { return new(suiteEnv), nil }
	opts := []envserver.Option{envserver.WithMaxSessions(2 * clientsuite.Sessions)}
	switch kind {
	default:
	case clientsuite.Solo:
		build = func(context.Context) (*suiteEnv, error) { return &suiteEnv{closing: 30 * time.Millisecond}, nil }
		opts = nil
	case clientsuite.Failing:
		build = func(context.Context) (*suiteEnv, error) { return nil, errors.New("the environment cannot be made") }
	case clientsuite.Small:
		opts = append(opts, envserver.WithMaxMessageSize(clientsuite.SmallLimit))
	}
	srv, err := envserver.New(suiteSpec, build, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// startMortal serves on a port whose connections can all be cut at once, as they are
// when the process is killed.
func startMortal(t *testing.T) clientsuite.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cut := &cuttable{Listener: l}
	srv := newSuiteServer(t, clientsuite.Mortal)
	hs := &http.Server{Handler: srv}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = hs.Serve(cut) // ends with the listener
	}()
	t.Cleanup(func() {
		cut.kill()
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		hs.Close()
		<-served
	})
	return clientsuite.Server{URL: "http://" + l.Addr().String(), Active: srv.ActiveSessions, Kill: cut.kill}
}

type cuttable struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func (c *cuttable) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cuttable) kill() {
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
}

// The test environment of package clientsuite. Its types are declared here: a server
// and a client need not share code, only JSON.
type (
	suiteAction struct {
		Message string `json:"message"`
	}
	suiteObservation struct {
		Echoed string `json:"echoed"`
		Length int    `json:"length"`
	}
	suiteResult = openenv.StepResult[suiteObservation]
)

var suiteSpec = openenv.Spec[suiteAction, suiteObservation, openenv.State]{Name: "suite"}

type suiteEnv struct {
	state   openenv.State
	closing time.Duration // how long Close takes
}

func (*suiteEnv) ConcurrentSessions() bool { return true }

func (e *suiteEnv) Reset(_ context.Context, p envserver.ResetParams) (suiteResult, error) {
	e.state = openenv.State{EpisodeID: p.EpisodeID}
	return suiteResult{Observation: suiteObservation{Echoed: "ready"}}, nil
}

func (e *suiteEnv) Step(ctx context.Context, a suiteAction) (suiteResult, error) {
	e.state.StepCount++
	res := suiteResult{Observation: suiteObservation{Echoed: a.Message}}
	word, argument, _ := strings.Cut(a.Message, ":")
	var err error
	switch {
	case word == "sleep":
		err = sleep(ctx, argument)
	case word == "big":
		var size int
		size, err = strconv.Atoi(argument)
		res.Observation.Echoed = strings.Repeat("x", size)
	case a.Message == "boom":
		err = errors.New("boom")
	case a.Message == "done":
		res.Done = true
	case a.Message == "meta":
		res.Metadata = openenv.Object{"a": 1}
	}
	res.Observation.Length = utf8.RuneCountInString(res.Observation.Echoed)
	res.Reward = new(0.1 * float64(res.Observation.Length))
	if a.Message == "nan" {
		res.Reward = new(math.NaN())
	}
	return res, err
}

// sleep ends with its ctx, so that the suite sees a cancel arrive.
func sleep(ctx context.Context, seconds string) error {
	s, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(s * float64(time.Second))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *suiteEnv) Close() error {
	time.Sleep(e.closing)
	return nil
}

func (e *suiteEnv) State(context.Context) (openenv.State, error) {
	if e.state.EpisodeID == "" {
		e.state.EpisodeID = "unnamed"
	}
	return e.state, nil
}
