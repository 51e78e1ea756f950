// Package catalog lists the environments that ship, for programs that serve one by its
// name:
//
//	entry, err := catalog.Find("gridworld")
//	srv, err := entry.New(envserver.WithMaxSessions(64))
//
// A program that knows its environment imports that instead.
package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/blackjack"
	"github.com/openenv-go/openenv/envs/connectfour"
	"github.com/openenv-go/openenv/envs/echo"
	"github.com/openenv-go/openenv/envs/files"
	"github.com/openenv-go/openenv/envs/gridworld"
	"github.com/openenv-go/openenv/envs/wait"
	"github.com/openenv-go/openenv/envs/wordle"
	"github.com/openenv-go/openenv/envserver"
)

// Entry is one environment.
type Entry struct {
	Name        string
	Description string // one line
	// New makes a server of it, as envserver.New does. The server's metadata is the
	// name and description, unless an option says otherwise.
	New func(opts ...envserver.Option) (*envserver.Server, error)
}

// All returns the environments in the order of their names. The slice is the caller's.
func All() []Entry {
	return []Entry{
		entry(blackjack.Spec, blackjack.New, "Card game against a dealer: hit or stick, nearer to 21 wins",
			envserver.WithSchema[blackjack.Choice](blackjack.ChoiceSchema)),
		entry(connectfour.Spec, connectfour.New, "Four in a row against a random, greedy or minimax opponent"),
		entry(echo.Spec, echo.New, "Answers with the message it was sent; the smallest environment"),
		entry(files.Spec, files.New, "Tools over a directory of its own: list, read, write, search"),
		entry(gridworld.Spec, gridworld.New, "Walk from a start to a goal, between walls and around pits",
			envserver.WithSchema[gridworld.Move](gridworld.MoveSchema)),
		entry(wait.Spec, wait.New, "Steps that take as long as their action says; measures servers"),
		entry(wordle.Spec, wordle.New, "Guess a secret word of five letters in six attempts"),
	}
}

// Find returns the environment of that name, or an error that lists the names.
func Find(name string) (Entry, error) {
	all := All()
	names := make([]string, 0, len(all))
	for _, e := range all {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Entry{}, fmt.Errorf("no environment is called %q; there are %s", name, strings.Join(names, ", "))
}

func entry[A, O, S any, E envserver.Environment[A, O, S]](
	spec openenv.Spec[A, O, S], build func(context.Context) (E, error), description string, own ...envserver.Option,
) Entry {
	return Entry{Name: spec.Name, Description: description, New: func(opts ...envserver.Option) (*envserver.Server, error) {
		named := envserver.WithMetadata(openenv.Metadata{Name: spec.Name, Description: description})
		return envserver.New(spec, build, slices.Concat([]envserver.Option{named}, own, opts)...)
	}}
}
