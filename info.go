package openenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime"

	"github.com/openenv-go/openenv/internal/session"
	"github.com/openenv-go/openenv/internal/wire"
)

// Health is a server's answer about itself.
type Health struct {
	Status string `json:"status"`
}

// Metadata describes an environment. Empty strings stand for what it does not say.
type Metadata struct {
	Name             string `json:"name"`
	Description      string `json:"description"`
	ReadmeContent    string `json:"readme_content"`
	Version          string `json:"version"`
	Author           string `json:"author"`
	DocumentationURL string `json:"documentation_url"`
}

// Schema holds the JSON Schemas of an environment. ResetObservation is nil unless
// the server publishes one of its own for reset.
type Schema struct {
	Action           json.RawMessage `json:"action"`
	Observation      json.RawMessage `json:"observation"`
	ResetObservation json.RawMessage `json:"reset_observation,omitempty"`
	State            json.RawMessage `json:"state"`
}

// Health asks the server for its health. Like the other information calls it uses
// HTTP, takes no turn, claims nothing and is bounded by ctx and, once the server is
// there, by the message timeout.
// A status that is not a success is a *ConnectError with that status.
func (c *Client[A, O, S]) Health(ctx context.Context) (Health, error) {
	return call[Health](ctx, c, "health", http.MethodGet, "/health", nil)
}

// Metadata asks the server what its environment is.
func (c *Client[A, O, S]) Metadata(ctx context.Context) (Metadata, error) {
	return call[Metadata](ctx, c, "metadata", http.MethodGet, "/metadata", nil)
}

// Schema asks the server for the schemas of action, observation and state.
func (c *Client[A, O, S]) Schema(ctx context.Context) (Schema, error) {
	return call[Schema](ctx, c, "schema", http.MethodGet, "/schema", nil)
}

// ListEnvironments returns the names of the environments that the server offers
// tasks for.
func (c *Client[A, O, S]) ListEnvironments(ctx context.Context) ([]string, error) {
	return call[[]string](ctx, c, "list environments", http.MethodGet, "/list_environments", nil)
}

// Splits returns the splits of an environment's tasks. A server whose environment
// has no tasks answers with status 501.
func (c *Client[A, O, S]) Splits(ctx context.Context, env string) ([]Object, error) {
	return call[[]Object](ctx, c, "splits", http.MethodGet, taskRoute(env, "splits"), nil)
}

// Tasks returns all tasks of a split.
func (c *Client[A, O, S]) Tasks(ctx context.Context, env, split string) ([]Object, error) {
	res, err := call[struct{ Tasks []Object }](ctx, c, "tasks", http.MethodPost, taskRoute(env, "tasks"), Object{"split": split})
	return res.Tasks, err
}

// NumTasks returns the number of tasks of a split.
func (c *Client[A, O, S]) NumTasks(ctx context.Context, env, split string) (int, error) {
	res, err := call[struct {
		NumTasks int `json:"num_tasks"`
	}](ctx, c, "num tasks", http.MethodPost, taskRoute(env, "num_tasks"), Object{"split": split})
	return res.NumTasks, err
}

// Task returns one task of a split.
func (c *Client[A, O, S]) Task(ctx context.Context, env, split string, index int) (Object, error) {
	res, err := call[struct{ Task Object }](ctx, c, "task", http.MethodPost, taskRoute(env, "task"), Object{"split": split, "index": index})
	return res.Task, err
}

// TaskRange returns the tasks from start up to but not including stop.
func (c *Client[A, O, S]) TaskRange(ctx context.Context, env, split string, start, stop int) ([]Object, error) {
	res, err := call[struct{ Tasks []Object }](ctx, c, "task range", http.MethodPost, taskRoute(env, "task_range"), Object{"split": split, "start": start, "stop": stop})
	return res.Tasks, err
}

func taskRoute(env, what string) string { return "/" + url.PathEscape(env) + "/" + what }

// call makes one HTTP exchange and decodes its JSON answer.
func call[T any](ctx context.Context, s Session, op, method, route string, body any) (T, error) {
	defer runtime.KeepAlive(s) // a client is not forgotten while somebody waits for it
	var out T
	c := s.sessionCore()
	if c.isClosed() {
		return out, c.convert(op, session.ErrClosed)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.sess.Base(), func() { cancel(session.ErrClosed) })()
	var payload []byte
	if body != nil {
		var err error
		if payload, err = wire.Marshal(body); err != nil {
			return out, fmt.Errorf("%s: encode: %w", op, err)
		}
	}
	answer, err := c.exchange(ctx, op, method, route, payload)
	if err != nil {
		return out, err
	}
	if err := wire.Unmarshal(answer.body, &out, wire.Numbers(c.set.numbers)); err != nil {
		return out, &DecodeError{Op: op, URL: c.baseURL() + route, Received: wire.Excerpt(answer.body), Err: err}
	}
	return out, nil
}

// answer is what came back over HTTP.
type answer struct {
	status   int
	instance string // of the server that answered, where it says
	body     []byte
}

// exchange makes one HTTP exchange with the server that c lives on, within the message
// timeout. An answer that is no success is an error.
func (c *core) exchange(ctx context.Context, op, method, route string, payload []byte) (answer, error) {
	at, err := c.host.resolve(ctx, c)
	if err != nil {
		return answer{}, c.convert(op, err)
	}
	if limit := c.set.messageTimeout; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w of %v", ErrMessageTimeout, limit))
		defer stop()
	}
	shown := at.base.String() + route
	got, err := c.fetch(ctx, at, method, at.base.HTTP(route).String(), payload)
	switch {
	case err != nil:
		return got, c.callError(op, shown, got.status, err)
	case got.status < 200 || got.status > 299:
		return got, &ConnectError{Op: op, URL: shown, Status: got.status, Err: statusError(got.status, got.body)}
	}
	return got, nil
}

// callError is the error of an HTTP exchange that got no answer, or not all of it.
func (c *core) callError(op, shown string, status int, err error) error {
	if errors.Is(err, session.ErrClosed) {
		return c.convert(op, err)
	}
	return &ConnectError{Op: op, URL: shown, Status: status, Err: err}
}

func (c *core) fetch(ctx context.Context, at target, method, address string, payload []byte) (answer, error) {
	var body io.Reader
	if payload != nil {
		body = bytes.NewReader(payload)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return answer{}, err
	}
	header, err := c.header(ctx, at)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(req.Header, header)
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.host.calls.Do(req)
	if err != nil {
		return answer{}, transportError(ctx, err)
	}
	defer resp.Body.Close()
	got := answer{status: resp.StatusCode, instance: resp.Header.Get(wire.InstanceHeader)}
	got.body, err = c.readBody(ctx, resp)
	return got, err
}

func (c *core) readBody(ctx context.Context, resp *http.Response) ([]byte, error) {
	var from io.Reader = resp.Body
	limit := c.set.maxMessage
	if limit > 0 {
		from = io.LimitReader(from, limit+1)
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, transportError(ctx, err)
	}
	if limit > 0 && int64(len(data)) > limit {
		return nil, &MessageTooBigError{Side: SideLocal, Limit: limit}
	}
	return data, nil
}

// transportError prefers the reason why ctx ended, and leaves out addresses.
func transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctxError(ctx)
	}
	return withoutURL(err)
}

// withoutURL drops the address that net/http, or a transport of the user, puts around
// an error: it can carry secrets.
func withoutURL(err error) error {
	for {
		outer, ok := errors.AsType[*url.Error](err)
		if !ok {
			return err
		}
		err = outer.Err
	}
}

// statusError says what the server said: OpenEnv servers answer {"detail": …}.
func statusError(status int, body []byte) error {
	text := fmt.Sprintf("HTTP status %d %s", status, http.StatusText(status))
	var answer struct{ Detail json.RawMessage }
	if wire.Unmarshal(body, &answer, wire.Float64) == nil && len(answer.Detail) > 0 {
		text += ": " + detail(answer.Detail)
	}
	return errors.New(text)
}

// detail is a string as it is, and the beginning of anything else.
func detail(raw json.RawMessage) string {
	var text string
	if wire.Unmarshal(raw, &text, wire.Float64) == nil {
		return text
	}
	return wire.Excerpt(raw)
}
