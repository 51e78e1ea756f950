package echo_test

import (
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

func TestStep(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		length        int
		reward        float64
	}{
		{"nothing", "", 0, 0},
		{"ASCII", "hi", 2, 0.2},
		{"characters, not bytes", "héllo 😀", 7, 0.7000000000000001},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := build(t)
			res, err := env.Step(t.Context(), echo.Action{Message: tt.message})
			if err != nil {
				t.Fatal(err)
			}
			if want := (echo.Observation{Echoed: tt.message, Length: tt.length}); res.Observation != want {
				t.Errorf("observation %+v, want %+v", res.Observation, want)
			}
			if res.Reward == nil || *res.Reward != tt.reward || res.Done || res.Metadata != nil {
				t.Errorf("result %+v, want the reward %v and nothing else", res, tt.reward)
			}
		})
	}
}

func TestEpisodes(t *testing.T) {
	env := build(t)
	first := state(t, env)
	if first.EpisodeID == "" || first.StepCount != 0 {
		t.Errorf("a new environment has the state %+v, want an episode of no steps", first)
	}
	res, err := env.Reset(t.Context(), envserver.ResetParams{EpisodeID: "e-1"})
	if err != nil {
		t.Fatal(err)
	}
	if res.Observation != (echo.Observation{Echoed: "ready"}) || res.Reward != nil || res.Done {
		t.Errorf("Reset = %+v, want ready, no reward, not done", res)
	}
	for range 3 {
		if _, err := env.Step(t.Context(), echo.Action{Message: "hi"}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := state(t, env), (openenv.State{EpisodeID: "e-1", StepCount: 3}); got != want {
		t.Errorf("state %+v, want %+v", got, want)
	}
	if _, err := env.Reset(t.Context(), envserver.ResetParams{}); err != nil {
		t.Fatal(err)
	}
	if got := state(t, env); got.EpisodeID == "" || got.EpisodeID == "e-1" || got.EpisodeID == first.EpisodeID || got.StepCount != 0 {
		t.Errorf("state %+v after a reset without a name, want a new episode of no steps", got)
	}
}

// The package declares all that a server of many sessions needs.
func TestServe(t *testing.T) {
	leak.Check(t)
	srv, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(2))
	if err != nil {
		t.Fatal(err)
	}
	s := openenvtest.Serve(t, srv)
	env, err := openenv.New(echo.Spec, s.URL(), s.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	if _, err := env.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := env.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Step(t.Context(), echo.Action{Message: "hi"}); err != nil {
		t.Fatal(err)
	}
	for client, want := range map[*openenv.Client[echo.Action, echo.Observation, openenv.State]]int{env: 0, other: 1} {
		if got, err := client.State(t.Context()); err != nil || got.StepCount != want {
			t.Errorf("state %+v, %v, want %d steps: environments share something", got, err, want)
		}
	}
	meta, err := env.Metadata(t.Context())
	if err != nil || meta.Name != "echo" {
		t.Errorf("Metadata = %+v, %v, want the name echo", meta, err)
	}
}

func build(t *testing.T) *echo.Env {
	t.Helper()
	env, err := echo.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func state(t *testing.T, env *echo.Env) openenv.State {
	t.Helper()
	s, err := env.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
