package interop

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/openenvtest"
)

// The tasks of the peer's environment "rich".
func (richEnv) Splits(context.Context) ([]envserver.Split, error) {
	return []envserver.Split{{Name: "train", Type: "train"}, {Name: "hard", Type: "test"}}, nil
}

func (richEnv) NumTasks(_ context.Context, split string) (int, error) {
	return map[string]int{"train": 3}[split], nil
}

func (richEnv) Task(_ context.Context, _ string, index int) (openenv.Object, error) {
	if index < 0 || index > 2 {
		return nil, envserver.ErrNoTask
	}
	return openenv.Object{"n": index}, nil
}

// requests are sent to both servers: method, path, and a body if there is one.
var requests = []string{
	`GET /health`, `GET /metadata`, `GET /nope`, `GET /`, `GET /ws`, `DELETE /health`, `POST /health`, `POST /metadata`, `POST /schema`,
	`GET /reset`, `GET /step`, `POST /state`, `PUT /reset`, `GET /mcp`,
	`POST /reset`, `POST /reset {}`, `POST /reset {"seed":7,"episode_id":"e"}`, `POST /reset {"seed":7.0}`, `POST /reset {"seed":null}`,
	`POST /reset {"seed":-1}`, `POST /reset {"seed":"x"}`, `POST /reset {"seed":1.5}`, `POST /reset {"episode_id":5}`, `POST /reset {"unknown":1}`,
	`POST /reset []`, `POST /reset 5`, `POST /reset nope`, `POST /reset null`,
	`POST /step`, `POST /step {}`, `POST /step []`, `POST /step {"action":5}`, `POST /step nope`,
	`POST /step {"action":{"text":"t","count":1,"ratio":1,"flag":true}}`,
	`POST /step {"action":{"text":"t","count":1,"ratio":1,"flag":true},"unknown":1}`,
	`POST /step {"action":{"text":5}}`, `POST /step {"action":{}}`,
	`GET /state`,
	`GET /list_environments`, `GET /RichEnv/splits`, `GET /richenv/splits`, `GET /other/splits`,
	`POST /RichEnv/tasks {"split":"train"}`, `POST /RichEnv/tasks {}`, `POST /RichEnv/tasks {"split":5}`, `POST /RichEnv/tasks`,
	`POST /RichEnv/tasks {"split":"train","x":1}`, `POST /other/tasks {"split":"train"}`, `GET /RichEnv/tasks`,
	`POST /RichEnv/num_tasks {"split":"train"}`, `POST /RichEnv/num_tasks {"split":"hard"}`,
	`POST /RichEnv/task {"split":"train","index":1}`, `POST /RichEnv/task {"split":"train","index":9}`, `POST /RichEnv/task {"split":"train"}`,
	`POST /RichEnv/task {"split":"train","index":"x"}`,
	`POST /RichEnv/task_range {"split":"train"}`, `POST /RichEnv/task_range {"split":"train","start":1,"stop":9}`,
	`POST /RichEnv/task_range {"split":"train","start":null,"stop":2}`, `POST /RichEnv/task_range {"split":"train","start":2,"stop":1}`,
	`POST /mcp nope`, `POST /mcp []`, `POST /mcp {}`, `POST /mcp {"jsonrpc":"2.0","method":"initialize","id":1}`,
	`POST /mcp {"jsonrpc":"2.0","method":"tools/list","id":1}`, `POST /mcp {"jsonrpc":"2.0","method":"tools/list","id":1,"params":[]}`,
	`POST /mcp {"jsonrpc":"2.0","method":"openenv/session/close","id":"a"}`,
	`POST /mcp {"jsonrpc":"2.0","method":"openenv/session/close","id":"a","params":{"session_id":"no"}}`,
	`POST /mcp {"jsonrpc":"2.0","method":"tools/list","id":1,"params":{"session_id":"no"}}`,
}

// otherAnswers are the answers that are not the peer's, and why.
// "*" in one stands for any text.
var otherAnswers = map[string]struct{ answer, why string }{
	`POST /reset nope`: {syntaxError, "where and what is wrong is the JSON library's to say"},
	`POST /step nope`:  {syntaxError, "the same"},
	`POST /mcp {}`: {
		`200 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: jsonrpc is missing or wrong","data":null}}`,
		"the peer's text is pydantic's",
	},
	`POST /mcp {"jsonrpc":"2.0","method":"tools/list","id":1,"params":[]}`: {
		`200 {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Params must be an object","data":null}}`,
		"JSON-RPC has a code of its own for bad params, and the id is known",
	},
}

const syntaxError = `422 {"detail":[{"type":"json_invalid","loc":["body","*"],"msg":"JSON decode error","input":{},"ctx":{"error":"*"}}]}`

// The HTTP routes of both servers; tasks and production mode are among them.
func testRoutes(t *testing.T, mode openenv.Mode, theirs string) {
	srv, err := envserver.New(openenv.Spec[richAction, richObservation, openenv.State]{Name: "RichEnv"},
		func(context.Context) (richEnv, error) { return richEnv{}, nil }, envserver.WithMode(mode))
	if err != nil {
		t.Fatal(err)
	}
	ours := openenvtest.ServeLoopback(t, srv).URL()
	for _, request := range requests {
		t.Run(request, func(t *testing.T) {
			got, want := answer(t, ours, request), answer(t, theirs, request)
			if other, ok := otherAnswers[request]; ok && !strings.HasPrefix(want, "404") { // the route is there in this mode
				want = other.answer
			}
			if !sameAnswer(t, want, got) {
				t.Errorf("ours   %s\ntheirs %s", got, want)
			}
		})
	}
}

// answer is the status and the body.
func answer(t *testing.T, url, request string) string {
	t.Helper()
	method, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status[:3] + " " + string(text)
}

func sameAnswer(t *testing.T, want, got string) bool {
	t.Helper()
	if want == got {
		return true
	}
	if want[:4] != got[:4] {
		return false
	}
	return sameBody(decode(t, want[4:]), decode(t, got[4:]))
}

// sameBody compares decoded bodies. Not compared are links into pydantic's
// documentation, the ids that servers make up, and what the environments, which only
// have the same action, have understood.
func sameBody(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g := asObject(got)
		for name := range g {
			if _, has := w[name]; !has {
				return false
			}
		}
		for name, value := range w {
			if _, has := g[name]; !has && name != "url" {
				return false
			}
			switch name {
			case "url", "episode_id", "seen":
			default:
				if !sameBody(value, g[name]) {
					return false
				}
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !sameBody(w[i], g[i]) {
				return false
			}
		}
		return true
	}
	return want == "*" || reflect.DeepEqual(want, got)
}
