package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/openenv-go/openenv/internal/load"
)

// runOenvBench runs the command's own measurement in a process of its own. Sessions
// that fail are in the result, and no error.
func (b *bench) runOenvBench(ctx context.Context, url string, args ...string) ([]*load.Result, error) {
	cmd := exec.CommandContext(ctx, b.cfg.oenv, append([]string{"bench", url, "--json"}, args...)...)
	out, err := cmd.Output()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return nil, err
	}
	var rep struct {
		Batches []*load.Result `json:"batches"`
	}
	if jsonErr := json.Unmarshal(out, &rep); jsonErr != nil || len(rep.Batches) == 0 {
		return nil, fmt.Errorf("oenv bench: %w", errors.Join(err, jsonErr))
	}
	return rep.Batches, nil
}

// cpuEach is the processor time of a session at both ends, in microseconds.
func cpuEach(r *load.Result) float64 {
	var total float64
	for _, u := range []*load.Usage{r.Client, r.Server} {
		if u != nil {
			total += u.CPU
		}
	}
	return total * 1e6 / float64(r.Sessions)
}

func memoryEach(u *load.Usage) float64 {
	if u == nil {
		return 0
	}
	return float64(u.PerSession) / 1024
}

// tellf prints a line of what goes on where no terminal shows it.
func tellf(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
