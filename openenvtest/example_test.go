package openenvtest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// An hour of waiting for a reply takes no time at all.
func TestScriptInsideSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
			p.Expect("reset")
			p.Observation(`{"echoed":"ready"}`)
			p.Expect("step")
			p.Silence()
		}))
		env, err := openenv.New(echo.Spec, srv.URL(), srv.Option())
		if err != nil {
			t.Fatal(err)
		}
		defer env.Close()
		res, err := env.Reset(t.Context())
		if err != nil || res.Observation.Echoed != "ready" {
			t.Fatalf("Reset = %+v, %v", res, err)
		}
		start := time.Now()
		_, err = env.Step(t.Context(), echo.Action{Message: "hi"})
		if !errors.Is(err, openenv.ErrMessageTimeout) || time.Since(start) != time.Minute {
			t.Fatalf("Step after %v: %v", time.Since(start), err)
		}
	})
}

func TestServeAnEnvironmentInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak.Check(t)
		handler, err := envserver.New(echo.Spec, echo.New)
		if err != nil {
			t.Fatal(err)
		}
		srv := openenvtest.Serve(t, handler)
		env, err := openenv.New(echo.Spec, srv.URL(), srv.Option())
		if err != nil {
			t.Fatal(err)
		}
		defer env.Close()
		if _, err := env.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		res, err := env.Step(t.Context(), echo.Action{Message: "hi"})
		if err != nil || res.Observation.Echoed != "hi" || res.Reward == nil || *res.Reward != 0.2 {
			t.Fatalf("Step = %+v, %v", res, err)
		}
	})
}
