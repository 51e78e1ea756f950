// Package envserver serves environments written in Go to every OpenEnv client.
//
//	srv, err := envserver.New(echo.Spec, echo.New, envserver.WithMaxSessions(64))
//	err = srv.ListenAndServe(ctx, "localhost:8000")
//
// A [Server] is an http.Handler. Every session socket gets an environment of its
// own, built by the function given to [New] and closed when the socket ends. Calls
// on one environment never overlap, and the ctx that it is given ends when its
// client leaves.
//
// [Embedded] serves in the caller's own process and is a provider for a client.
package envserver
