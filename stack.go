package openenv

import "runtime"

// roundTripStack is somewhat more than a round trip takes of a stack.
const roundTripStack = 6 << 10

// growStack makes a new goroutine's stack large enough for a round trip while there is
// nothing on it: growing it at its deepest, with every frame to be moved, takes a tenth
// of the time of a pipelined step.
//
//go:noinline
func growStack() {
	var room [roundTripStack]byte
	runtime.KeepAlive(&room)
}
