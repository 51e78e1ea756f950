// Package openenv drives reinforcement-learning environments that are served over
// the OpenEnv protocol: reset, step and state over one WebSocket per session. It
// works with every Python OpenEnv server; package envserver serves environments
// written in Go to every OpenEnv client.
//
// # One implementation, two faces
//
// A [Client] is one session. Its verbs block, take a context and do their work on
// the caller's goroutine:
//
//	env, err := openenv.New(echo.Spec, "http://localhost:8000")
//	defer env.Close()
//	res, err := env.Reset(ctx, openenv.Seed(42))
//	for err == nil && !res.Done {
//		res, err = env.Step(ctx, policy(res.Observation))
//	}
//
// [Client.Async] is the same client with verbs that only describe a call. The
// [Future] they return runs when it is awaited or started, at most once:
//
//	f := env.Async().Step(action)
//	res, err := f.Await(ctx)
//	all, err := openenv.AwaitAll(ctx, f1, f2, f3) // 64 rollouts at once
//
// The first call that runs locks the client to its face, so that one episode is
// never driven from both sides; [Client.NewSession] opens another session of the
// same family for the other side. docs/two-faces.md tells the whole story.
//
// # Episodes are never papered over
//
// When a session in which something was done ends, by a network loss, a timeout or
// a cancelled step, the next Step returns a [*SessionLostError] without sending
// anything, until Reset has started a new episode. A request is never sent twice.
package openenv
