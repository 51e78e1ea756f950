// Package cli is the command oenv without its process: arguments and streams in,
// an exit code out.
//
//	code := cli.Main([]string{"inspect", "localhost:8000"}, cli.System())
//
// Each command is a struct of options, a constructor that ties them to flags, and a
// run method. Commands print to the [Streams] that they are given and report
// failures as errors; [Main] alone turns an error into a line on standard error and
// a code of the one table of exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs oenv with args, the program's name not included, and returns its exit
// code.
func Main(args []string, s *Streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	root := newRoot(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		s.note(failureText(err))
	}
	return codeOf(err)
}

const rootLong = `oenv looks at servers that speak the OpenEnv protocol, plays their environments by
hand, calls their tools and offers these to MCP hosts, serves the environments that ship,
runs others from images, Spaces, projects and programs, and starts the writing of new
ones.

Results go to standard output, everything else to standard error. The exit code
says what went wrong: see "oenv help exit-codes".`

// newRoot builds the tree of commands.
func newRoot(s *Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "oenv",
		Short: "Look at OpenEnv servers, play, serve, run and write environments",
		Long:  rootLong,
		Example: `  oenv demo                                  a server and 64 concurrent episodes, in this process
  oenv inspect http://localhost:8000         what a server offers
  oenv play http://localhost:8000            drive an environment line by line
  oenv call http://localhost:8000 add a=2 b=5    call a tool of an environment
  oenv mcp http://localhost:8000             offer its tools to any MCP host
  oenv serve gridworld                       an environment that ships, on port 8000
  oenv run registry.example.com/echo:1.2     an environment from an image, until Ctrl-C
  oenv rollout gridworld --out run.jsonl     many episodes at once, on file
  oenv bench http://localhost:8000           what it carries
  oenv init maze                             the beginning of a new environment`,
		Version:       version(),
		SilenceUsage:  true, // an error is one line; the usage is one --help away
		SilenceErrors: true, // Main prints it
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetVersionTemplate("oenv {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.PersistentFlags().BoolVar(&s.NoColor, "no-color", s.NoColor, "print without colours, as the variable NO_COLOR does")
	root.AddCommand(newDemo(s), newInspect(s), newPlay(s), newTools(s), newCall(s), newMCP(s), newServe(s), newRun(s), newPs(s), newPrune(s), newBench(s), newInit(s),
		newRollout(s), newStats(s), newShow(s), newReplay(s), newCheck(s), newRecord(s), newStandIn(s), newExitCodes())
	return root
}

// unknownCommand refuses words that no command answers to.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return &usageError{errors.New(text + ` ("oenv --help" lists the commands)`)}
}

// oneURL is the rule for commands that talk to one server.
func oneURL(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usagef("%s: the server's URL is missing, such as http://localhost:8000", cmd.Name())
	case 1:
		return nil
	}
	return usagef("%s: one URL is wanted, not %d arguments", cmd.Name(), len(args))
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s: takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// untilInterrupt runs a command that Ctrl-C ends. Play is not one: there, Ctrl-C
// ends a step. Nor are serve and run: there, it is the normal end.
func untilInterrupt(ctx context.Context, run func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	// A second Ctrl-C finds the signal's default action and kills a cleanup that hangs.
	defer context.AfterFunc(ctx, stop)()
	err := run(ctx)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}
