package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/mcp"
)

// toolConnection is the flags of the commands that use an environment's tools.
type toolConnection struct {
	connection

	mode           string
	messageTimeout time.Duration
}

func (c *toolConnection) register(cmd *cobra.Command) {
	c.connection.register(cmd.Flags())
	cmd.Flags().StringVar(&c.mode, "mode", string(openenv.ModeProduction), "production: a call is a request; simulation: a call is a step, with reward and done")
	cmd.Flags().DurationVar(&c.messageTimeout, "message-timeout", openenv.DefaultMessageTimeout, "longest wait for an answer, 0 for no limit")
	// It fails for a flag that does not exist, and this one was just made.
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]cobra.Completion{"production", "simulation"}, cobra.ShellCompDirectiveNoFileComp))
}

// client makes a client of tools. Nothing is sent yet, so that every error is one of
// usage.
func (c *toolConnection) client(url string) (*mcp.Client, error) {
	mode, err := openenv.ParseMode(c.mode)
	if err != nil {
		return nil, usagef("--mode: %q is neither production nor simulation", c.mode)
	}
	if c.messageTimeout < 0 {
		return nil, usagef("--message-timeout: %v is negative", c.messageTimeout)
	}
	header, err := c.header()
	if err != nil {
		return nil, err
	}
	client, err := mcp.New(url, openenv.WithHeaders(header), openenv.WithMode(mode), openenv.WithMessageTimeout(c.messageTimeout))
	if err != nil {
		return nil, usagef("%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "mcp.New: "), "openenv.New: "))
	}
	return client, nil
}

// toolFailure says in one line what is wrong where the client's words do not.
func toolFailure(url string, err error) error {
	if errors.Is(err, mcp.ErrNoTools) {
		return fmt.Errorf("%s: the environment has no tools", oneLine(url))
	}
	return err
}
