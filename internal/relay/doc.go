// Package relay is a bad network, for tests: a TCP relay between a client and a
// server that breaks connections where a plan says.
//
//	r, err := relay.New(ctx, "127.0.0.1:8000", relay.Random{Seed: 1, Min: 200, Max: 4000, Kinds: []relay.Kind{relay.Cut, relay.Truncate}})
//	defer r.Close()
//	client, err := openenv.New(echo.Spec, "http://"+r.Addr())
//
// It knows nothing of the protocol above it; HTTP and WebSocket share its port. As
// long as no fault is due, the bytes, their order and the way a connection ends
// (in order, half closed or reset) are those of a direct connection.
//
// A plan places faults by connection, direction and byte of the stream, and draws
// what it draws from a seed, so that the same traffic meets the same faults. A test
// that wants to decide itself uses [Relay.Cut], [Relay.Abort], [Relay.Blackhole],
// [Relay.Refuse] and [Relay.Heal].
package relay
