package provider_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/openenv-go/openenv/provider"
)

func TestErrors(t *testing.T) {
	var many strings.Builder
	for range 99 {
		many.WriteString("early\n")
	}
	many.WriteString("late\n")
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{
			"setting", &provider.ConfigError{Provider: "process", Setting: "command", Err: fs.ErrNotExist},
			"process provider: command: file does not exist",
		},
		{
			"code", &provider.ExitError{Name: "server", Code: 3, Tail: "a\nb\n"},
			"server exited with status 3 before it was ready; its output ended with:\n\ta\n\tb",
		},
		{
			"signal", &provider.ExitError{Name: "server", Code: -1, Signal: "killed"},
			"server was ended by a signal (killed) before it was ready; it wrote nothing",
		},
		{
			"late", &provider.NotReadyError{Name: "server", Err: fs.ErrNotExist, Tail: many.String()},
			"server: file does not exist; its output ended with:" + strings.Repeat("\n\tearly", 9) + "\n\tlate",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if _, exited := errors.AsType[*provider.ExitError](tt.err); !exited && !errors.Is(tt.err, fs.ErrNotExist) {
				t.Error("the reason cannot be matched")
			}
		})
	}
}
