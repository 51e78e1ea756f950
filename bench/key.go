package main

import "fmt"

// key names what a figure is of.
type key struct {
	client, server string
	sessions       int
	size           int // bytes of the observation
}

// The clients and floors.
const (
	goTyped  = "Go"
	goJSON   = "Go, json.RawMessage"
	goMap    = "Go, raw map"
	goAwait  = "Go, await"
	goStart  = "Go, start and await"
	goResume = "Go, WithResume"
	pyAsync  = "Python async"
	pySync   = "Python sync"
	bareWS   = "bare WebSocket"
	bareTCP  = "bare TCP"
	codec    = "encode and decode alone"
	floorOne = "one process"
	floorTwo = "two processes"
)

// The servers.
const (
	embedded     = "Go, same process"
	goServer     = "Go"
	pyServer     = "Python"
	pyCoroutines = "Python, step a coroutine"
)

const (
	small  = 100
	medium = 10 << 10
	large  = 1 << 20
	huge   = 50 << 20
)

func sizeText(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// message is the action's message that asks for an observation of size bytes: itself
// for a small one, so that it is the same in both directions, and a number for others.
func message(size int) string {
	if size == small {
		return fmt.Sprintf("%0*d", small, 0)
	}
	return fmt.Sprintf("big:%d", size)
}
