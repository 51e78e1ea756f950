package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/openenvtest"
)

// routes answers what is asked, and notes it.
type routes struct {
	answers map[string]string
	got     []string
}

func (s *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := r.Method + " " + r.URL.EscapedPath()
	s.got = append(s.got, strings.TrimSpace(request+" "+string(body)))
	answer, ok := s.answers[request]
	if !ok {
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
		return
	}
	_, _ = io.WriteString(w, answer)
}

// Every information call: its request and what it makes of the answer.
func TestInformationCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer string
		call   func(ctx context.Context, env *openenv.GenericClient) (any, error)
		sent   string
		want   string
	}{
		{"Health", `{"status":"healthy","more":1}`, func(ctx context.Context, env *openenv.GenericClient) (any, error) { return env.Health(ctx) },
			"GET /p/health", "{healthy}"},
		{"Metadata", `{"name":"echo","version":"1","author":null}`, func(ctx context.Context, env *openenv.GenericClient) (any, error) { return env.Metadata(ctx) },
			"GET /p/metadata", "{echo   1  }"},
		{"Schema", `{"action":{"a":1},"observation":{},"state":{}}`, func(ctx context.Context, env *openenv.GenericClient) (any, error) {
			s, err := env.Schema(ctx)
			return fmt.Sprintf("%s %s %s %v", s.Action, s.Observation, s.State, s.ResetObservation == nil), err
		}, "GET /p/schema", `{"a":1} {} {} true`},
		{"ListEnvironments", `["a","b"]`, func(ctx context.Context, env *openenv.GenericClient) (any, error) { return env.ListEnvironments(ctx) },
			"GET /p/list_environments", "[a b]"},
		{"Splits", `[{"name":"train"}]`, func(ctx context.Context, env *openenv.GenericClient) (any, error) { return env.Splits(ctx, "e/x") },
			"GET /p/e%2Fx/splits", "[map[name:train]]"},
		{"Tasks", `{"tasks":[{"id":1}],"env_name":"e"}`, func(ctx context.Context, env *openenv.GenericClient) (any, error) {
			return env.Tasks(ctx, "e", "train")
		},
			`POST /p/e/tasks {"split":"train"}`, "[map[id:1]]"},
		{"NumTasks", `{"num_tasks":12}`, func(ctx context.Context, env *openenv.GenericClient) (any, error) {
			return env.NumTasks(ctx, "e", "train")
		}, `POST /p/e/num_tasks {"split":"train"}`, "12"},
		{"Task", `{"task":{"id":3}}`, func(ctx context.Context, env *openenv.GenericClient) (any, error) {
			return env.Task(ctx, "e", "train", 3)
		},
			`POST /p/e/task {"index":3,"split":"train"}`, "map[id:3]"},
		{"TaskRange", `{"tasks":[]}`, func(ctx context.Context, env *openenv.GenericClient) (any, error) {
			return env.TaskRange(ctx, "e", "train", 1, 2)
		}, `POST /p/e/task_range {"split":"train","start":1,"stop":2}`, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				request, _, _ := strings.Cut(tt.sent, " {")
				s := &routes{answers: map[string]string{request: tt.answer}}
				srv := openenvtest.Serve(t, s)
				env := generic(t, srv.URL()+"/p/ws", srv.Option())
				got, err := tt.call(t.Context(), env)
				if err != nil || fmt.Sprint(got) != tt.want {
					t.Errorf("%v, %v; want %s", got, err, tt.want)
				}
				if len(s.got) != 1 || !sameRequest(s.got[0], tt.sent) {
					t.Errorf("sent %q, want %q", s.got, tt.sent)
				}
				if env.ExecMode() != openenv.ExecNone {
					t.Errorf("mode %v", env.ExecMode())
				}
			})
		})
	}
}

// sameRequest compares requests whose body has its keys in any order.
func sameRequest(a, b string) bool {
	sorted := func(s string) string {
		parts := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" {},", r) })
		seen := map[string]bool{}
		for _, p := range parts {
			seen[p] = true
		}
		return fmt.Sprint(seen)
	}
	return sorted(a) == sorted(b)
}

// An answer that is no success is an error with its status and the server's reason;
// redirects are not followed.
func TestInformationCallFailures(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler http.Handler
		opts    []openenv.Option
		status  int
		says    []string
	}{
		{"401", &statuses{status: 401}, nil, 401, []string{"401 Unauthorized"}},
		{"404", &statuses{status: 404, body: `{"detail":"Not Found"}`}, nil, 404, []string{"404", "Not Found"}},
		{"422", &statuses{status: 422, body: `{"detail":[{"loc":["body","split"]}]}`}, nil, 422, []string{"422", "split"}},
		{"501", &statuses{status: 501, body: `{"detail":"environment has no \"tasks\""}`}, nil, 501, []string{"501", `environment has no "tasks"`}},
		{"500 with a page", &statuses{status: 500, body: "<html>"}, nil, 500, []string{"500"}},
		{"307", &statuses{status: 307, header: http.Header{"Location": {"/login"}}}, nil, 307, []string{"307"}},
		{"302", &statuses{status: 302, header: http.Header{"Location": {"/login"}}}, nil, 302, []string{"302"}},
		{"too big", &statuses{status: 200, body: strings.Repeat("x", 2000)}, []openenv.Option{openenv.WithMaxMessageSize(1000)}, 200, []string{"local limit of 1000"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := openenvtest.Serve(t, tt.handler)
				env := generic(t, srv.URL(), append([]openenv.Option{srv.Option()}, tt.opts...)...)
				_, err := env.Metadata(t.Context())
				failed := as[*openenv.ConnectError](t, "Metadata", err)
				if failed.Status != tt.status || failed.Op != "metadata" || failed.URL != "http://memnet.test:80/metadata" {
					t.Errorf("%+v", failed)
				}
				for _, part := range tt.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%v does not say %q", err, part)
					}
				}
				if s, ok := tt.handler.(*statuses); ok && s.requests.Load() != 1 {
					t.Errorf("%d requests", s.requests.Load())
				}
			})
		})
	}
	for _, body := range []string{"<html>", "", "[]", `{"status":7}`, `{"status":"a","status":"b"}`} {
		bubble(t, func(t *testing.T) {
			srv := openenvtest.Serve(t, &statuses{status: 200, body: body})
			_, err := generic(t, srv.URL(), srv.Option()).Health(t.Context())
			wantAs[*openenv.DecodeError](t, "Health", err)
		})
	}
}

// Bounded by the message timeout, by ctx, and by Close; no turn is taken.
func TestInformationCallsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		script := openenvtest.Script(t, func(p *openenvtest.Peer) { p.Silence() })
		srv := openenvtest.Serve(t, slowHealth{script, release})
		env := generic(t, srv.URL(), srv.Option(), openenv.WithMessageTimeout(3*time.Second))
		busy := env.Async().State().Start(t.Context())
		took := after(func() {
			_, err := env.Health(within(t, time.Second))
			wantIs(t, "ctx", err, context.DeadlineExceeded)
		})
		if took != time.Second {
			t.Errorf("after %v", took)
		}
		took = after(func() {
			_, err := env.Health(t.Context())
			wantIs(t, "message timeout", err, openenv.ErrMessageTimeout)
			wantAs[*openenv.ConnectError](t, "message timeout", err)
		})
		if took != 3*time.Second {
			t.Errorf("after %v", took)
		}
		waiting := make(chan error, 1)
		go func() { _, err := env.Health(t.Context()); waiting <- err }()
		synctest.Wait()
		if err := env.Close(); err != nil {
			t.Error(err)
		}
		wantIs(t, "Close", <-waiting, openenv.ErrClosed)
		<-busy.Done()
	})
}

// Nobody there: the operation and the address are named, and the reason.
func TestNobodyThere(t *testing.T) {
	env := generic(t, "http://127.0.0.1:1")
	_, err := env.Health(t.Context())
	refused := as[*openenv.ConnectError](t, "Health", err)
	if refused.Status != 0 || !strings.HasPrefix(err.Error(), "health http://127.0.0.1:1/health: ") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	_, err = env.Reset(t.Context())
	refused = as[*openenv.ConnectError](t, "Reset", err)
	if refused.Status != 0 || !strings.HasPrefix(err.Error(), "reset ws://127.0.0.1:1/ws: ") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	if _, lost := errors.AsType[*openenv.SessionLostError](err); lost {
		t.Error("nothing was lost")
	}
}
