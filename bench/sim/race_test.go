//go:build race

package main

// raceDetector makes the simulation ten times as slow, and finds nothing in one goroutine.
const raceDetector = true
