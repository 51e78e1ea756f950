// Package bridge is a server of the standard Model Context Protocol in front of an
// OpenEnv server: a host that knows nothing of OpenEnv lists and calls the tools of an
// environment.
//
//	err := bridge.Stdio(ctx, os.Stdin, os.Stdout, bridge.Config{Dial: dial})
//
// Every session of the protocol is one session of the environment, with an episode that
// is reset when it starts. Tools are listed with all that the server says of them, and
// results are passed on as they are.
package bridge
