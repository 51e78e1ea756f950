// Package ledger has environments that keep a list of what was done to them, for tests
// of what a bad network does: what a client was told is compared with what happened.
//
//	srv, err := ledger.New(ledger.Rejects, envserver.WithMaxSessions(8))
//	s := openenvtest.ServeLoopback(t, srv)
//	… play episodes through a relay …
//	episodes, err := ledger.Fetch(ctx, s.HTTPClient(), s.URL())
//
// The Python peer has the same environments under the same names (server.py --env), with
// the same route.
package ledger
