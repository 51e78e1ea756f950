package envserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// ErrNoTask is matched by the error of a [TaskProvider] for a split or an index that
// it does not have; the route answers 400.
var ErrNoTask = errors.New("no such task")

var errNoTasks = errors.New("environment offers no tasks")

// taskRoutes are the task discovery of the peer (http_server.py, "Task API").
func (s *Server) taskRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /list_environments", func(w http.ResponseWriter, _ *http.Request) {
		writeValue(w, []string{s.kind.name})
	})
	mux.HandleFunc("GET /{env}/splits", s.task("list_splits", nil, func(ctx context.Context, p TaskProvider, _ taskBody) (any, error) {
		splits, err := p.Splits(ctx)
		if splits == nil {
			splits = []Split{}
		}
		return splits, err
	}))
	mux.HandleFunc("POST /{env}/tasks", s.task("list_tasks", []string{"split"}, func(ctx context.Context, p TaskProvider, b taskBody) (any, error) {
		n, err := p.NumTasks(ctx, b.Split)
		if err != nil {
			return nil, err
		}
		tasks, err := taskRange(ctx, p, b.Split, 0, n)
		return map[string]any{"tasks": tasks, "env_name": s.kind.name}, err
	}))
	mux.HandleFunc("POST /{env}/num_tasks", s.task("num_tasks", []string{"split"}, func(ctx context.Context, p TaskProvider, b taskBody) (any, error) {
		n, err := p.NumTasks(ctx, b.Split)
		return map[string]any{"num_tasks": n}, err
	}))
	mux.HandleFunc("POST /{env}/task", s.task("get_task", []string{"split", "index"}, func(ctx context.Context, p TaskProvider, b taskBody) (any, error) {
		task, err := p.Task(ctx, b.Split, b.Index)
		return map[string]any{"task": task}, err
	}))
	mux.HandleFunc("POST /{env}/task_range", s.task("get_task_range", []string{"split", "start?", "stop?"}, func(ctx context.Context, p TaskProvider, b taskBody) (any, error) {
		start, stop, err := b.bounds(ctx, p)
		if err != nil {
			return nil, err
		}
		tasks, err := taskRange(ctx, p, b.Split, start, stop)
		return map[string]any{"tasks": tasks}, err
	}))
}

type taskBody struct {
	Split string `json:"split"`
	Index int    `json:"index"`
	Start *int   `json:"start"`
	Stop  *int   `json:"stop"`
}

// bounds are those of a Python slice, without negative indexes: what is beyond the end is
// left out.
func (b taskBody) bounds(ctx context.Context, p TaskProvider) (start, stop int, err error) {
	n, err := p.NumTasks(ctx, b.Split)
	if err != nil {
		return 0, 0, err
	}
	stop = n
	if b.Start != nil {
		start = *b.Start
	}
	if b.Stop != nil {
		stop = min(*b.Stop, n)
	}
	if start < 0 || stop < 0 {
		return 0, 0, ErrNoTask
	}
	return start, max(start, stop), nil
}

func taskRange(ctx context.Context, p TaskProvider, split string, start, stop int) ([]openenv.Object, error) {
	tasks := []openenv.Object{}
	for i := start; i < stop; i++ {
		task, err := p.Task(ctx, split, i)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// task answers one route: the environment's name, the body, and then the question to
// an environment that is built for it.
func (s *Server) task(method string, fields []string, ask func(context.Context, TaskProvider, taskBody) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("env"); !strings.EqualFold(name, s.kind.name) {
			writeDetail(w, http.StatusNotFound, "unknown environment '"+name+"'")
			return
		}
		var body taskBody
		if fields != nil {
			raw, ok := s.readBody(w, r)
			if !ok {
				return
			}
			var errs []fieldError
			if body, errs = decodeTaskBody(raw, fields); errs != nil {
				writeDetail(w, http.StatusUnprocessableEntity, errs)
				return
			}
		}
		answers := make(chan any, 1) // of a call that may go on after its client was answered
		err := s.throwaway(r.Context(), nil, call{typ: method, ask: func(ctx context.Context, env instance) error {
			p := env.tasks()
			if p == nil {
				return errNoTasks
			}
			answer, err := ask(ctx, p, body)
			answers <- answer
			return err
		}})
		switch {
		case err == nil:
			writeValue(w, <-answers)
		case errors.Is(err, errNoTasks):
			writeDetail(w, http.StatusNotImplemented, method+" is not supported for this environment")
		case errors.Is(err, ErrNoTask):
			writeDetail(w, http.StatusBadRequest, "Invalid task index")
		default:
			writeFailure(w, err)
		}
	}
}

// taskSchema describes a body of those fields; the ones with a question mark are
// optional.
func taskSchema(fields []string) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type: "object", Properties: make(map[string]*jsonschema.Schema),
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}, // types.py, BaseMessage
	}
	for _, field := range fields {
		name, optional := strings.CutSuffix(field, "?")
		s.PropertyOrder = append(s.PropertyOrder, name)
		switch {
		case optional:
			s.Properties[name] = &jsonschema.Schema{Types: []string{"integer", "null"}}
			continue
		case name == "split":
			s.Properties[name] = &jsonschema.Schema{Type: "string"}
		default:
			s.Properties[name] = &jsonschema.Schema{Type: "integer"}
		}
		s.Required = append(s.Required, name)
	}
	return s
}

func decodeTaskBody(raw []byte, fields []string) (taskBody, []fieldError) {
	var body taskBody
	if len(bytes.TrimSpace(raw)) == 0 {
		return body, []fieldError{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}
	if _, errs := objectBody(raw); errs != nil {
		return body, errs
	}
	var errs []fieldError
	schema := taskSchema(fields)
	explainValue(schema, []any{"body"}, raw, &errs)
	if errs != nil {
		return body, errs
	}
	fixed, _ := integers(schema, raw)
	if err := wire.Unmarshal(fixed, &body, wire.Float64); err != nil {
		return body, []fieldError{{Type: "value_error", Loc: []any{"body"}, Msg: "Value error, " + err.Error(), Input: json.RawMessage(raw)}}
	}
	return body, nil
}
