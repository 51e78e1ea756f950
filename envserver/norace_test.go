//go:build !race

package envserver_test

const raceDetector = false
