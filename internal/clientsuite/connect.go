package clientsuite

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/openenv-go/openenv"
)

var connectCases = []testCase{
	{name: "health, metadata and schema", run: information},
	{name: "a path that does not exist", run: unknownPath},
	{name: "a port that nobody listens on", run: closedPort},
	{name: "addresses of one server", run: addresses},
}

func information(p *play) {
	c := p.client()
	health, err := c.Health(p.Context())
	if err != nil || health.Status != "healthy" {
		p.Errorf("Health = %+v, %v", health, err)
	}
	meta, err := c.Metadata(p.Context())
	if err != nil || meta.Name == "" || meta.Description == "" || meta.Version == "" {
		p.Errorf("Metadata = %+v, %v", meta, err)
	}
	schema, err := c.Schema(p.Context())
	if err != nil {
		p.Fatalf("Schema: %v", err)
	}
	for name, want := range map[string]struct {
		schema json.RawMessage
		fields []string
	}{
		"action":      {schema.Action, []string{"message", "metadata"}},
		"observation": {schema.Observation, []string{"echoed", "length", "reward", "done", "metadata"}},
		"state":       {schema.State, []string{"episode_id", "step_count"}},
	} {
		var got struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(want.schema, &got); err != nil {
			p.Errorf("schema of the %s: %v", name, err)
		}
		for _, field := range want.fields {
			if got.Properties[field] == nil {
				p.Errorf("schema of the %s lacks %s: %s", name, field, want.schema)
			}
		}
	}
	if got := c.BaseURL(); got != p.server.URL {
		p.Errorf("BaseURL = %q, want %q", got, p.server.URL)
	}
	if got := c.SessionID(); got != "" {
		p.Errorf("SessionID = %q, a session on its socket has none", got)
	}
}

func unknownPath(p *play) {
	c := open(p, Spec, p.server.URL+"/nowhere")
	for name, tt := range map[string]struct {
		call func() error
		want int
	}{
		"Connect":  {func() error { return c.Connect(p.Context()) }, p.target.UnknownPath},
		"Reset":    {func() error { _, err := c.Reset(p.Context()); return err }, p.target.UnknownPath},
		"Health":   {func() error { _, err := c.Health(p.Context()); return err }, http.StatusNotFound},
		"Metadata": {func() error { _, err := c.Metadata(p.Context()); return err }, http.StatusNotFound},
	} {
		err := tt.call()
		var refused *openenv.ConnectError
		if !errors.As(err, &refused) || refused.Status != tt.want {
			p.Errorf("%s: %v (%T), want a *ConnectError with status %d", name, err, err, tt.want)
			continue
		}
		if !strings.Contains(refused.URL, "/nowhere/") {
			p.Errorf("%s: the error names %q", name, refused.URL)
		}
	}
}

func closedPort(p *play) {
	url, opts := "http://closed.test", []openenv.Option{openenv.WithHTTPClient(&http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
	}})}
	if !p.target.Bubble {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.Fatalf("listen: %v", err)
		}
		url, opts = "http://"+l.Addr().String(), nil
		if err := l.Close(); err != nil {
			p.Fatalf("close the listener: %v", err)
		}
	}
	c := open(p, Spec, url, opts...)
	for name, call := range map[string]func() error{
		"Connect":    func() error { return c.Connect(p.Context()) },
		"Reset":      func() error { _, err := c.Reset(p.Context()); return err },
		"Step":       func() error { _, err := c.Step(p.Context(), Action{"hi"}); return err },
		"NewSession": func() error { _, err := c.NewSession(p.Context()); return err },
		"Health":     func() error { _, err := c.Health(p.Context()); return err },
	} {
		err := call()
		var refused *openenv.ConnectError
		if !errors.As(err, &refused) || !errors.Is(err, syscall.ECONNREFUSED) || refused.Status != 0 {
			p.Errorf("%s: %v (%T), want a *ConnectError without a status", name, err, err)
		}
	}
}

// Reports: an address is parsed, not glued together.
func addresses(p *play) {
	host := strings.TrimPrefix(p.server.URL, "http://")
	for _, url := range []string{"http://" + host + "/", "HTTP://" + host, "ws://" + host, "ws://" + host + "/ws", host, "http://" + host + "?x=1"} {
		c := open(p, Spec, url)
		if err := c.Connect(p.Context()); err != nil {
			p.Errorf("Connect to %s: %v", url, err)
			continue
		}
		if health, err := c.Health(p.Context()); err != nil || health.Status != "healthy" {
			p.Errorf("Health at %s = %+v, %v", url, health, err)
		}
	}
}
