package recorder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/internal/testenv"
	"github.com/openenv-go/openenv/openenvtest"
	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/recorder"
	"github.com/openenv-go/openenv/rollout/standin"
)

// recording is a recorder in front of a server, and its file.
type recording struct {
	*recorder.Recorder

	t    *testing.T
	url  string
	path string
	out  *record.Writer
}

func start(t *testing.T, upstream string) *recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "session.jsonl")
	out, err := record.Create(path, record.Header{Kind: record.KindRecording, Source: upstream}, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := recorder.New(upstream, out)
	if err != nil {
		t.Fatal(err)
	}
	return &recording{r, t, openenvtest.ServeLoopback(t, r).URL(), path, out}
}

// file ends the recording and reads it.
func (r *recording) file() *record.File {
	r.t.Helper()
	if err := errors.Join(r.Shutdown(context.Background()), r.out.Close()); err != nil {
		r.t.Fatal(err)
	}
	file, err := record.Load(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	return file
}

// frames is what each session of a file said, in an order that is the same for the
// same sessions. What a client sent before it saw that it was refused is left out: it
// may be in time for the file or not.
func frames(t *testing.T, file *record.File) []string {
	t.Helper()
	var sessions []string
	for _, e := range file.Episodes {
		var b strings.Builder
		for i := range e.Exchanges {
			reply, err := e.Exchanges[i].ReplyFrame()
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && e.Exchanges[0].Op == "" {
				break
			}
			b.Write(e.Exchanges[i].Request())
			b.WriteString("\n -> ")
			b.Write(reply)
			b.WriteString("\n")
		}
		sessions = append(sessions, b.String())
	}
	slices.Sort(sessions)
	return sessions
}

// scenarios runs the published package's clients and returns what they report.
func scenarios(t *testing.T, url string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), filepath.Join(testenv.Root(t), "interop", "peer", "client.py"), url, url, // the second is for a scenario that is not among these
		"generic_async", "generic_sync", "generic_bare", "typed", "new_session", "validation")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OPENENV_CLIENT_MODE=simulation")
	cmd.WaitDelay = time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("client.py: %v\n%s\n%s", err, out, log.Bytes())
	}
	return slices.Sorted(strings.Lines(string(out)))
}

// The recorder between the Python clients and the Python server; then the same clients
// against the stand-in, with the server off: the clients see the same, and every frame
// is the same.
func TestPythonClientAgainstTheStandIn(t *testing.T) {
	leak.Check(t)
	python := peerproc.Start(t, "--env", "echo", "--max-sessions", "64")
	many := start(t, python.URL())
	want := scenarios(t, many.url)
	if d := many.Added(); d.Count == 0 {
		t.Error("no delay was measured")
	} else {
		t.Logf("the recorder held messages up for %.3f ms (median), %.3f ms (90 %%)", d.Median, d.P90)
	}
	onFile := many.file()
	python.Kill()

	again := start(t, openenvtest.ServeLoopback(t, standin.New(onFile)).URL())
	if reported := scenarios(t, again.url); !reflect.DeepEqual(reported, want) {
		t.Errorf("the clients report\n%.2000s\nwant\n%.2000s", reported, want)
	}
	said, first := frames(t, again.file()), frames(t, onFile)
	if len(said) != len(first) || len(first) == 0 {
		t.Errorf("%d sessions, want %d", len(said), len(first))
	}
	for i := range min(len(said), len(first)) {
		if said[i] != first[i] {
			t.Errorf("the frames are\n%.1500s\nwant\n%.1500s", said[i], first[i])
			break
		}
	}
}

// What a Go client does over the recorder, the HTTP routes included, is the same as
// without it, and can be done again at the stand-in.
func TestGoClientAndHTTP(t *testing.T) {
	leak.Check(t)
	srv, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(4))
	if err != nil {
		t.Fatal(err)
	}
	upstream := openenvtest.ServeLoopback(t, srv)
	type seen struct {
		Metadata openenv.Metadata
		Schema   string
		Missing  string
		Echoed   string
		Steps    int
		Refused  string
	}
	use := func(url string) (got seen) {
		t.Helper()
		env, err := openenv.New(echo.Spec, url)
		if err != nil {
			t.Fatal(err)
		}
		defer env.Close()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		got.Metadata, err = env.Metadata(t.Context())
		must(err)
		schema, err := env.Schema(t.Context())
		must(err)
		got.Schema = string(schema.Action)
		if _, err := env.Splits(t.Context(), "nothing"); err != nil {
			connect, _ := errors.AsType[*openenv.ConnectError](err)
			got.Missing = connect.Err.Error()
		}
		_, err = env.Reset(t.Context(), openenv.EpisodeID("e-1"))
		must(err)
		res, err := env.Step(t.Context(), echo.Action{Message: strings.Repeat("é", 100_000)})
		must(err)
		got.Echoed = res.Observation.Echoed
		state, err := env.State(t.Context())
		must(err)
		got.Steps = state.StepCount
		return got
	}
	want := use(upstream.URL())
	r := start(t, upstream.URL())
	if got := use(r.url); !reflect.DeepEqual(got, want) {
		t.Errorf("over the recorder: %+v, want %+v", got, want)
	}
	file := r.file()
	if len(file.Episodes) != 1 || len(file.HTTP) != 3 || file.Episodes[0].Closed.Code != 1000 {
		t.Errorf("%d sessions, %d HTTP exchanges, %+v", len(file.Episodes), len(file.HTTP), file.Episodes[0].Closed)
	}
	stand := standin.New(file)
	if got := use(openenvtest.ServeLoopback(t, stand).URL()); !reflect.DeepEqual(got, want) {
		t.Errorf("at the stand-in: %+v, want %+v", got, want)
	}
	if left := stand.Unplayed(); len(left) != 0 {
		t.Errorf("sessions %v were not played", left)
	}
}

// Whatever a server does to its client, the recorder does.
func TestEndsPass(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(p *openenvtest.Peer)
		code int
		by   string
	}{
		{"the server closes", func(p *openenvtest.Peer) { p.Expect("reset"); p.Close(1012, "restart") }, 1012, "server"},
		{"the server is gone", func(p *openenvtest.Peer) { p.Expect("reset"); p.Abort() }, 1006, "server"},
		{"unasked, then a close", func(p *openenvtest.Peer) { p.Error("CAPACITY_REACHED", "full") }, 1000, "server"},
		{"a binary message", func(p *openenvtest.Peer) { p.SendBinary([]byte{1}); p.Close(1003, "") }, 1003, "server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			r := start(t, openenvtest.ServeLoopback(t, openenvtest.Script(t, tt.play)).URL())
			said, code := converse(t, r.url)
			file := r.file()
			closed := file.Episodes[0].Closed
			if code != tt.code || closed.Code != tt.code || closed.By != tt.by {
				t.Errorf("the client sees %d, on file is %+v", code, closed)
			}
			again, code := converse(t, openenvtest.ServeLoopback(t, standin.New(file)).URL())
			if code != tt.code || again != said {
				t.Errorf("at the stand-in the client sees %q and %d, want %q and %d", again, code, said, tt.code)
			}
		})
	}
}

// converse resets and returns what it hears until the end, and how that comes.
func converse(t *testing.T, url string) (said string, code int) {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), url+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	_ = ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"reset","data":{}}`)) // the server may have closed already
	for {
		typ, message, err := ws.Read(t.Context())
		if err != nil {
			code = int(websocket.CloseStatus(err))
			if code == -1 {
				code = 1006
			}
			return said, code
		}
		said += typ.String() + string(message)
	}
}

// A refused upgrade is refused in the server's words.
func TestRefusedUpgrade(t *testing.T) {
	leak.Check(t)
	upstream := openenvtest.ServeLoopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" || r.URL.RawQuery != "a=1" {
			http.Error(w, `{"detail":"who are you?"}`, http.StatusForbidden)
		}
	}))
	for _, tt := range []struct {
		name, url string
		token     string
		status    int
	}{
		{"refused", upstream.URL(), "", http.StatusForbidden},
		{"headers and query pass", upstream.URL(), "Bearer s3cret", http.StatusOK},
		{"nobody there", "http://127.0.0.1:1", "", http.StatusBadGateway},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, tt.url)
			defer r.file()
			_, resp, err := websocket.Dial(t.Context(), r.url+"/ws?a=1", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {tt.token}}})
			if err == nil || resp == nil {
				t.Fatal(err)
			}
			want := tt.status
			if want == http.StatusOK {
				want = http.StatusBadGateway // the server has answered, and not upgraded
			}
			if resp.StatusCode != want {
				t.Errorf("status %d, want %d", resp.StatusCode, want)
			}
		})
	}
}

// An action off the script gets an error that names the expected one, and the script
// can be gone on with.
func TestStandInNamesWhatItExpected(t *testing.T) {
	leak.Check(t)
	e := &record.Episode{Index: 3}
	for _, pair := range [][2]string{
		{`{"type":"reset","data":{"seed":7}}`, `{"type":"observation","data":{"observation":{"n":0},"reward":null,"done":false}}`},
		{`{"type":"step","data":{"move":"up","n":1}}`, `{"type":"observation", "data":{"observation":{"n":1},"reward":1,"done":true}}`},
	} {
		e.Exchanges = append(e.Exchanges, record.NewExchange([]byte(pair[0]), []byte(pair[1])))
	}
	srv := openenvtest.ServeLoopback(t, standin.New(&record.File{Episodes: []*record.Episode{e}}))
	ws, _, err := websocket.Dial(t.Context(), srv.URL()+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for _, tt := range []struct{ send, want string }{
		{`{"type":"step","data":{}}`, `stand-in: no episode of the record: expected reset {"seed":7}, got step {}`},
		{`{"type":"reset","data":{"seed":8}}`, `expected reset {"seed":7}, got reset {"seed":8}`},
		{`{"type":"reset","data":{"seed":7}}`, `{"type":"observation","data":{"observation":{"n":0},"reward":null,"done":false}}`},
		{`{"type":"step","data":{"move":"down","n":1}}`, `stand-in: episode 3, exchange 1: expected step {"move":"up","n":1}, got step {"move":"down","n":1}`},
		{`{"type":"state"}`, `{"type":"state","data":{"episode_id":"","step_count":0}}`},
		{`{"type":"step","data":{ "n":1, "move":"up" }}`, `{"type":"observation", "data":{"observation":{"n":1},"reward":1,"done":true}}`},
		{`{"type":"step","data":{"move":"up","n":1}}`, `stand-in: episode 3, exchange 2: expected nothing more, got step`},
		{`nonsense`, `expected nothing more, got unknown nonsense`},
	} {
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(tt.send)); err != nil {
			t.Fatal(err)
		}
		_, frame, err := ws.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := string(frame)
		var refused struct {
			Type string `json:"type"`
			Data struct {
				Message string `json:"message"`
			} `json:"data"`
		}
		if err := json.Unmarshal(frame, &refused); err != nil {
			t.Fatal(err)
		}
		if refused.Type == "error" {
			got = refused.Data.Message
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("to %s: %s, want %s", tt.send, got, tt.want)
		}
	}
}
