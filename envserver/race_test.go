//go:build race

package envserver_test

// The race detector makes pools forget at random.
const raceDetector = true
