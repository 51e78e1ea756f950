package envserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/openenvtest"
)

// lab is a server's world as its environments see it: what was built and closed, and
// whether two calls ever met.
type lab struct {
	build func(context.Context) error // before an environment is built
	enter func(hook string)           // at the beginning of each call, build and close included

	mu       sync.Mutex
	built    int
	alive    int
	peak     int
	closed   map[int]int // by number: how often
	overlaps int
	canceled []error // causes of the contexts that ended during a step
}

type (
	labAction struct {
		Do string `json:"do"`
		Ms int    `json:"ms,omitempty"`
	}
	labObservation struct {
		Did  string         `json:"did"`
		N    int            `json:"n"`
		Rate float64        `json:"rate"`
		Meta openenv.Object `json:"meta,omitempty"`
	}
	labState struct {
		openenv.State

		Fen string `json:"fen"`
	}
	labResult = openenv.StepResult[labObservation]
)

var labSpec = openenv.Spec[labAction, labObservation, labState]{Name: "lab"}

type labEnv struct {
	lab    *lab
	number int
	steps  int
	inside bool
}

func (l *lab) make(ctx context.Context) (*labEnv, error) {
	if l.enter != nil {
		l.enter("build")
	}
	l.mu.Lock()
	l.alive++
	l.peak = max(l.peak, l.alive)
	l.mu.Unlock()
	if l.build != nil {
		if err := l.build(ctx); err != nil {
			l.mu.Lock()
			l.alive--
			l.mu.Unlock()
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.built++
	return &labEnv{lab: l, number: l.built}, nil
}

// call notes that a call is in progress, and that another was.
func (e *labEnv) call(hook string) func() {
	e.lab.mu.Lock()
	if e.inside {
		e.lab.overlaps++
	}
	e.inside = true
	e.lab.mu.Unlock()
	if e.lab.enter != nil {
		e.lab.enter(hook)
	}
	return func() {
		e.lab.mu.Lock()
		defer e.lab.mu.Unlock()
		e.inside = false
	}
}

func (*labEnv) ConcurrentSessions() bool { return true }

func (e *labEnv) Reset(_ context.Context, p envserver.ResetParams) (labResult, error) {
	defer e.call("reset")()
	res := labResult{Observation: labObservation{Did: "reset"}}
	if level, ok := p.Extra["level"]; ok {
		res.Observation.Did = fmt.Sprint("reset to ", level)
	}
	if p.Seed != nil {
		res.Observation.N = int(*p.Seed)
	}
	if p.EpisodeID == "with metadata" {
		res.Metadata = openenv.Object{"a": 1}
	}
	return res, nil
}

func (e *labEnv) Step(ctx context.Context, a labAction) (labResult, error) {
	defer e.call("step")()
	e.steps++
	res := labResult{Observation: labObservation{Did: a.Do, N: e.steps, Meta: envserver.ActionMetadata(ctx)}}
	d := time.Duration(a.Ms) * time.Millisecond
	switch a.Do {
	case "sleep":
		select {
		case <-time.After(d):
		case <-ctx.Done():
			e.lab.mu.Lock()
			e.lab.canceled = append(e.lab.canceled, context.Cause(ctx))
			e.lab.mu.Unlock()
			return res, context.Cause(ctx)
		}
	case "deadline":
		res.Observation.Rate = -1
		if at, ok := ctx.Deadline(); ok {
			res.Observation.Rate = time.Until(at).Seconds()
		}
	case "big":
		res.Observation.Did = strings.Repeat("x", a.Ms)
	case "ignore":
		time.Sleep(d) // whatever becomes of ctx
	case "ignore then panic":
		time.Sleep(d)
		panic("late")
	case "panic":
		panic("boom")
	case "error":
		return res, errors.New("no such move")
	case "nan":
		res.Reward = new(math.NaN())
	case "inf inside":
		res.Observation.Rate = math.Inf(1)
	case "meta":
		res.Metadata = openenv.Object{"a": 1}
	case "win":
		res.Reward, res.Done = new(-1.0), true
	}
	return res, nil
}

func (e *labEnv) State(context.Context) (labState, error) {
	defer e.call("state")()
	return labState{openenv.State{EpisodeID: "e", StepCount: e.steps}, "8/8"}, nil
}

func (e *labEnv) Close() error {
	defer e.call("close")()
	e.lab.mu.Lock()
	defer e.lab.mu.Unlock()
	e.lab.alive--
	if e.lab.closed == nil {
		e.lab.closed = map[int]int{}
	}
	e.lab.closed[e.number]++
	return nil
}

func (l *lab) server(t testing.TB, opts ...envserver.Option) *envserver.Server {
	t.Helper()
	srv, err := envserver.New(labSpec, l.make, append([]envserver.Option{envserver.WithMaxSessions(8)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// check fails unless each environment that was built has been closed once, and no two
// calls met on one.
func (l *lab) check(t testing.TB, built int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.built != built || l.alive != 0 || len(l.closed) != l.built {
		t.Errorf("%d built, want %d; %d alive; closed %v", l.built, built, l.alive, l.closed)
	}
	for number, times := range l.closed {
		if times != 1 {
			t.Errorf("environment %d was closed %d times", number, times)
		}
	}
	if l.overlaps != 0 {
		t.Errorf("%d calls overlapped", l.overlaps)
	}
}

func (l *lab) living() (alive, peak int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive, l.peak
}

// world is a lab with a served server.
type world struct {
	*lab

	t   testing.TB
	srv *envserver.Server
	at  *openenvtest.Server
}

// inMemory serves a new lab in the test's bubble.
func inMemory(t testing.TB, opts ...envserver.Option) *world {
	t.Helper()
	return serveLab(t, new(lab), opts...)
}

func serveLab(t testing.TB, l *lab, opts ...envserver.Option) *world {
	t.Helper()
	srv := l.server(t, opts...)
	return &world{lab: l, t: t, srv: srv, at: openenvtest.Serve(t, srv)}
}

// session is a raw socket.
type session struct {
	t  testing.TB
	ws *websocket.Conn
}

func (w *world) dial(query string) *session {
	w.t.Helper()
	s, err := w.tryDial(query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) tryDial(query string, header http.Header) (*session, error) {
	ws, _, err := websocket.Dial(w.t.Context(), "ws"+strings.TrimPrefix(w.at.URL(), "http")+"/ws"+query,
		&websocket.DialOptions{HTTPClient: w.at.HTTPClient(), HTTPHeader: header})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	w.t.Cleanup(func() { _ = ws.CloseNow() }) // closed already, as a rule
	return &session{w.t, ws}, nil
}

func (s *session) send(frame string) {
	s.t.Helper()
	if err := s.ws.Write(context.Background(), websocket.MessageText, []byte(frame)); err != nil {
		s.t.Fatalf("send %s: %v", frame, err)
	}
}

// do steps with an action and returns the reply.
func (s *session) do(what string, ms int) string {
	s.t.Helper()
	s.send(stepFrame(what, ms))
	return s.receive()
}

func stepFrame(what string, ms int) string {
	return fmt.Sprintf(`{"type":"step","data":{"do":%q,"ms":%d}}`, what, ms)
}

// receive returns the next frame, or the error of a closed socket as text.
func (s *session) receive() string {
	_, frame, err := s.ws.Read(context.Background())
	var ce websocket.CloseError
	switch {
	case errors.As(err, &ce):
		return strings.TrimSpace(fmt.Sprintf("closed %d %s", ce.Code, ce.Reason))
	case err != nil:
		return "lost"
	}
	return string(frame)
}

// want fails unless text has each of the parts.
func want(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %s\nwant %s in it", text, part)
		}
	}
}

// get makes an HTTP request; a body makes it a POST.
func (w *world) get(path, body string) (status int, text string) {
	w.t.Helper()
	return w.request(path, body, nil)
}

func (w *world) request(path, body string, header http.Header) (status int, text string) {
	w.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(context.Background(), method, w.at.URL()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	resp, err := w.at.HTTPClient().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// rpc posts a JSON-RPC call and returns its result or error as text.
func (w *world) rpc(method, params string) string {
	w.t.Helper()
	_, body := w.get("/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	return body
}

// create makes a session over HTTP.
func (w *world) create() (id string) {
	w.t.Helper()
	var answer struct {
		Result struct {
			SessionID string `json:"session_id"`
		} `json:"result"`
	}
	body := w.rpc("openenv/session/create", "{}")
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Result.SessionID == "" {
		w.t.Fatalf("create: %s, %v", body, err)
	}
	return answer.Result.SessionID
}

// shutdown shuts the server down as a test's end does.
func (w *world) shutdown() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.srv.Shutdown(ctx); err != nil {
		w.t.Errorf("Shutdown: %v", err)
	}
}

// settle waits until every goroutine of the bubble waits.
func settle() { synctest.Wait() }

// servedOnLoopback serves over real sockets, where there are buffers.
func servedOnLoopback(t testing.TB, h http.Handler) *openenvtest.Server {
	t.Helper()
	return openenvtest.ServeLoopback(t, h)
}

// inMemoryServer serves any server in the test's bubble.
func inMemoryServer(t testing.TB, h http.Handler) *openenvtest.Server {
	t.Helper()
	return openenvtest.Serve(t, h)
}
