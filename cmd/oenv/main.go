// Command oenv looks at OpenEnv servers, plays their environments by hand, serves
// the environments that ship, runs others, starts new ones, and shows what the library
// does:
//
//	oenv demo
//	oenv inspect http://localhost:8000
//	oenv play http://localhost:8000
//	oenv serve gridworld
//	oenv run registry.example.com/echo:1.2
//	oenv init maze
//
// All of it is in package internal/cli; this one only ends the process.
package main

import (
	"os"

	"github.com/openenv-go/openenv/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], cli.System())) }
