package main

import (
	"context"
	"fmt"
	"strconv"
)

// stormDials is how many sessions connect at the same time.
const stormDials = 64

// measureStorm compares how many sessions a second come and go: connect, reset, close.
func (b *bench) measureStorm(ctx context.Context) error {
	sessions := 512
	t := Table{
		Title:   "Connection storm",
		Command: fmt.Sprintf("oenv bench URL --sessions %d --steps 0 --dials %d, and bench/client.py batch", sessions, stormDials),
		Header:  []string{"client", "server", "sessions/s", "failed"},
		Note:    fmt.Sprintf("%d sessions at once, %d of them dialling: connect, reset, close. The Go client also waits to be admitted.", sessions, stormDials),
	}
	ours, err := startOenv(ctx, b.cfg.oenv, "echo", 4*sessions)
	if err != nil {
		return err
	}
	defer ours.stop()
	servers := []struct{ name, url string }{{goServer, ours.url}}
	if b.cfg.python != "" {
		servers = append(servers, struct{ name, url string }{pyServer, b.peer})
	}
	type storm struct {
		client, server string
		rate           []float64
		failed         int
		run            func() (rate float64, failed int, err error)
	}
	var storms []*storm
	for _, s := range servers {
		storms = append(storms, &storm{client: goTyped, server: s.name, run: func() (float64, int, error) {
			rs, err := b.runOenvBench(ctx, s.url, "--sessions", strconv.Itoa(sessions), "--steps", "0", "--dials", strconv.Itoa(stormDials))
			if err != nil {
				return 0, 0, err
			}
			return rs[0].SessionsPerSecond, sessions - rs[0].Succeeded, nil
		}})
		if b.cfg.python == "" {
			continue
		}
		storms = append(storms, &storm{client: pyAsync, server: s.name, run: func() (float64, int, error) {
			r, err := askBatch(b.python[pyAsync], s.url, sessions, stormDials, "-")
			return float64(r.Succeeded) / r.Seconds, sessions - r.Succeeded, err
		}})
	}
	for range max(5, b.cfg.rounds) {
		for _, s := range storms {
			rate, failed, err := s.run()
			if err != nil {
				return fmt.Errorf("%s on %s: %w", s.client, s.server, err)
			}
			s.rate = append(s.rate, rate)
			s.failed += failed
		}
	}
	for _, s := range storms {
		t.add(s.client, s.server, spreadOf(s.rate), s.failed)
	}
	b.report.Tables = append(b.report.Tables, t)
	return nil
}
