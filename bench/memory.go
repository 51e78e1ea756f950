package main

import (
	"context"
	"fmt"
	"strconv"
)

// measureMemory runs before anything else has used the processes of the Python package.
// It compares what an open, idle session takes at each end, after one step.
func (b *bench) measureMemory(ctx context.Context) error {
	t := Table{
		Title:   "Memory of an open, idle session",
		Command: "oenv bench URL --sessions N --steps 1 --hold 3s, and bench/client.py hold for the Python client",
		Header:  []string{"end", "sessions", "KiB each"},
		Note: "Resident memory above that of the process without sessions, after one step in each. " +
			"A client of `oenv bench` includes the goroutine that plays the session.",
	}
	ours, err := startOenv(ctx, b.cfg.oenv, "echo", 4096)
	if err != nil {
		return err
	}
	defer ours.stop()
	const sessions = 1024
	rs, err := b.runOenvBench(ctx, ours.url, "--sessions", strconv.Itoa(sessions), "--steps", "1", "--hold", "3s")
	if err != nil {
		return err
	}
	t.add("Go server", sessions, memoryEach(rs[0].Server))
	t.add("Go client", sessions, memoryEach(rs[0].Client))
	if b.cfg.python != "" {
		if err := b.peerMemory(ctx, &t); err != nil {
			return err
		}
	}
	b.report.Tables = append(b.report.Tables, t)
	return nil
}

func (b *bench) peerMemory(ctx context.Context, t *Table) error {
	const sessions = 256
	rs, err := b.runOenvBench(ctx, b.peer, "--sessions", strconv.Itoa(sessions), "--steps", "1", "--hold", "3s")
	if err != nil {
		return err
	}
	t.add("Python server", sessions, memoryEach(rs[0].Server))
	var answer struct {
		Each int64 `json:"memory_per_session"`
	}
	if err := b.python[pyAsync].ask(fmt.Sprintf("hold %s %d", b.peer, sessions), &answer); err != nil {
		return err
	}
	t.add("Python client", sessions, float64(answer.Each)/1024)
	return nil
}
