package catalog_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/catalog"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

func names() []string {
	var all []string
	for _, e := range catalog.All() {
		all = append(all, e.Name)
	}
	return all
}

func TestAll(t *testing.T) {
	want := []string{"blackjack", "connectfour", "echo", "files", "gridworld", "wait", "wordle"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	catalog.All()[0].Name = "changed"
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("after a change of the slice: %v", got)
	}
}

func TestFind(t *testing.T) {
	for _, name := range names() {
		if e, err := catalog.Find(name); err != nil || e.Name != name {
			t.Errorf("Find(%s) = %q, %v", name, e.Name, err)
		}
	}
	_, err := catalog.Find("chess")
	if want := `no environment is called "chess"; there are blackjack, connectfour, echo, files, gridworld, wait, wordle`; err == nil || err.Error() != want {
		t.Errorf("Find(chess): %v", err)
	}
}

// Every environment serves several sessions, says what it is, and starts an episode
// for a client that knows nothing of it.
func TestEveryEnvironmentServes(t *testing.T) {
	for _, e := range catalog.All() {
		t.Run(e.Name, func(t *testing.T) {
			leak.Check(t)
			handler, err := e.New(envserver.WithMaxSessions(2))
			if err != nil {
				t.Fatal(err)
			}
			srv := openenvtest.Serve(t, handler)
			env, err := openenv.New(openenv.Generic, srv.URL(), srv.Option())
			if err != nil {
				t.Fatal(err)
			}
			defer env.Close()
			about, err := env.Metadata(t.Context())
			if err != nil || about.Name != e.Name || about.Description != e.Description || strings.Contains(e.Description, "\n") {
				t.Errorf("Metadata = %+v, %v", about, err)
			}
			second, err := env.NewSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ids := map[any]bool{}
			for _, session := range []*openenv.GenericClient{env, second} {
				if res, err := session.Reset(t.Context()); err != nil || res.Done || len(res.Observation) == 0 {
					t.Errorf("Reset = %+v, %v", res, err)
				}
				state, err := session.State(t.Context())
				if err != nil || state["step_count"] != 0.0 {
					t.Errorf("State = %v, %v", state, err)
				}
				ids[state["episode_id"]] = true
			}
			if len(ids) != 2 || ids[""] {
				t.Errorf("episodes %v", ids)
			}
		})
	}
}

func TestAnOptionOverridesTheMetadata(t *testing.T) {
	leak.Check(t)
	e, err := catalog.Find("wait")
	if err != nil {
		t.Fatal(err)
	}
	handler, err := e.New(envserver.WithMetadata(openenv.Metadata{Name: "mine"}))
	if err != nil {
		t.Fatal(err)
	}
	srv := openenvtest.Serve(t, handler)
	env, err := openenv.New(openenv.Generic, srv.URL(), srv.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	if about, err := env.Metadata(t.Context()); err != nil || about.Name != "mine" {
		t.Errorf("Metadata = %+v, %v", about, err)
	}
}

// A reader of the schema learns what each field is.
func TestFieldsAreDescribed(t *testing.T) {
	inherited := []string{"episode_id", "step_count"} // of openenv.State, whose tags are not ours
	for _, e := range catalog.All() {
		if e.Name == "echo" {
			continue // its names say it all
		}
		t.Run(e.Name, func(t *testing.T) {
			leak.Check(t)
			handler, err := e.New()
			if err != nil {
				t.Fatal(err)
			}
			srv := openenvtest.Serve(t, handler)
			env, err := openenv.New(openenv.Generic, srv.URL(), srv.Option())
			if err != nil {
				t.Fatal(err)
			}
			defer env.Close()
			schema, err := env.Schema(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for kind, text := range map[string]json.RawMessage{"action": schema.Action, "observation": schema.Observation, "state": schema.State} {
				var s struct {
					Properties map[string]struct {
						Description string `json:"description"`
					} `json:"properties"`
				}
				if err := json.Unmarshal(text, &s); err != nil || len(s.Properties) == 0 {
					t.Fatalf("%s: %v in %s", kind, err, text)
				}
				for name, p := range s.Properties {
					if p.Description == "" && !slices.Contains(inherited, name) {
						t.Errorf("%s: %s has no description", kind, name)
					}
				}
			}
		})
	}
}
