package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envserver"
)

// An episode that outlives its socket, and what to do with each error that is left.
func ExampleWithResume() {
	srv, err := envserver.New(echo.Spec, echo.New)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(srv)
	defer server.Close()

	env, err := openenv.New(echo.Spec, server.URL, openenv.WithResume(openenv.Resume{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer env.Close()
	ctx := context.Background()

	play := func() error {
		if _, err := env.Reset(ctx); err != nil {
			return err
		}
		for range 10 {
			res, err := env.Step(ctx, echo.Action{Message: "hi"})
			if lost, ok := errors.AsType[*openenv.ReplyLostError](err); ok {
				// It was applied; what it observed is gone. The episode goes on.
				fmt.Println("observation lost, the episode is at", lost.State)
				continue
			}
			if err != nil {
				return err
			}
			if res.Done {
				break
			}
		}
		return nil
	}

	err = play()
	var (
		doubt *openenv.StepInDoubtError
		gone  *openenv.SessionLostError
	)
	switch {
	case errors.As(err, &doubt):
		// The step may have been applied or not. A caller that cannot tell it from the
		// two states begins another episode; the session is still there.
		fmt.Println("in doubt:", doubt.Before, doubt.After)
		err = play()
	case errors.As(err, &gone):
		// The server has no such session any more, or cannot be reached. Reset makes
		// another one.
		fmt.Println("episode lost:", gone.Cause)
		err = play()
	}
	fmt.Println("ended with", err)
	// Output: ended with <nil>
}
