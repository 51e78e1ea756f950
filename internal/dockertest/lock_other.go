//go:build !unix

package dockertest

import "errors"

type lockMode int

const (
	shared lockMode = iota
	exclusive
	exclusiveNow
)

func lock(string, string, lockMode) (func(), error) { return func() {}, nil }

func usersFile(string, bool) string { return "" }

func ownedByUs(string) error { return nil }

func startEngine(string, string) error { return errors.New("none is running, see README.md") }
