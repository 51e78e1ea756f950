package providertest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/providertest"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func embedded(t *testing.T) provider.Provider {
	t.Helper()
	srv, err := envserver.New(echo.Spec, echo.New)
	if err != nil {
		t.Fatal(err)
	}
	return &fake{Provider: envserver.Embedded(srv)}
}

// fake fails where it is told to.
type fake struct {
	provider.Provider
	start, ready, stop error
	silent             time.Duration
}

func (f *fake) Start(ctx context.Context) (provider.Endpoint, error) {
	if err := errors.Join(f.start, ctx.Err()); err != nil {
		return provider.Endpoint{}, err
	}
	return f.Provider.Start(ctx)
}

func (f *fake) WaitReady(ctx context.Context) error {
	if f.silent > 0 {
		ctx, cancel := context.WithTimeout(ctx, f.silent)
		defer cancel()
		<-ctx.Done()
		return errors.Join(ctx.Err(), f.ready)
	}
	return f.ready
}

func (f *fake) Stop(ctx context.Context) error {
	if err := f.stop; err != nil {
		f.stop = nil
		return err
	}
	return f.Provider.Stop(ctx)
}

// The suite passes on a provider that does what it should.
func TestRun(t *testing.T) {
	with := func(change func(*fake)) func(*testing.T) provider.Provider {
		return func(t *testing.T) provider.Provider {
			p := embedded(t).(*fake)
			change(p)
			return p
		}
	}
	providertest.Run(t, providertest.Config{
		New:            embedded,
		BadStart:       with(func(f *fake) { f.start = errors.New("no image") }),
		BadStartSays:   []string{"no image"},
		Dies:           with(func(f *fake) { f.ready = errors.New("status 3: last words") }),
		DiesSays:       []string{"3", "last words"},
		NeverReady:     with(func(f *fake) { f.silent, f.ready = 200*time.Millisecond, errors.New("loading") }),
		NeverReadySays: []string{"loading"},
		StopFails:      with(func(f *fake) { f.stop = errors.New("not now") }),
		Parallel:       8,
		Leftovers:      func(*testing.T) []string { return nil },
		Limit:          time.Minute,
	})
}
