// Package openenvtest helps to test programs that use OpenEnv clients: a server in
// memory, and a scripted one that misbehaves on request.
//
// [Serve] puts any http.Handler, an envserver.Server for instance, behind an address
// that only its own clients reach:
//
//	srv := openenvtest.Serve(t, handler)
//	env, err := openenv.New(echo.Spec, srv.URL(), srv.Option())
//
// [Script] is a server whose side of each session is a function:
//
//	srv := openenvtest.Serve(t, openenvtest.Script(t, func(p *openenvtest.Peer) {
//		p.Expect("reset")
//		p.Observation(`{"echoed":"ready"}`)
//		p.Expect("step")
//		p.Abort() // in the middle of a step
//	}))
//
// Both work inside a testing/synctest bubble: nothing waits on a real socket, so time
// there is free.
package openenvtest
