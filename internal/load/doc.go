// Package load plays many sessions of one server at once and measures them: how long
// connecting, reset, step and the whole session took, what failed and why, and what
// both ends used of this machine.
//
//	res, err := load.Run(ctx, load.Plan{URL: url, Sessions: 1024, Steps: 1, Action: []byte(`{"wait_s": 1}`)})
//
// A session connects, resets, steps and closes, as those of the scaling experiment in
// the Python package's documentation do. All begin at once, and every time is measured
// from there or around one call: what waits in a queue of this package is part of the
// total.
//
// It measures a client of this module, not the protocol: what a session costs here is
// what it costs a program that uses package openenv with raw JSON.
package load
