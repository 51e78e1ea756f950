package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envs/echo"
)

// pipelined is how many steps of a replay are on their way at once.
const pipelined = 64

// measureReplay compares the replay of known actions, step by step and pipelined, as
// it is and with 20 ms of added round-trip time.
func (b *bench) measureReplay(ctx context.Context) error {
	t := Table{
		Title:   "Replay of known actions",
		Command: "go run ./bench -part replay",
		Header:  []string{"server", "added latency", "closed loop, steps/s", "pipelined, steps/s", "ratio"},
		Note:    fmt.Sprintf("One session, 100 B, WithPipelining(%d); steps are futures that are started in order. The Python server is unmodified.", pipelined),
	}
	ours, err := startOenv(ctx, b.cfg.oenv, "echo", 64)
	if err != nil {
		return err
	}
	defer ours.stop()
	type row struct {
		server, url string
		latency     time.Duration
		goal        float64
	}
	rows := []row{{goServer, ours.url, 0, 2}, {goServer, ours.url, 20 * time.Millisecond, 15}}
	if b.cfg.python != "" {
		rows = append(rows, row{pyServer, b.peer, 0, 0}, row{pyServer, b.peer, 20 * time.Millisecond, 0})
	}
	for _, r := range rows {
		loop, piped, err := b.replay(ctx, r.url, r.latency)
		if err != nil {
			return fmt.Errorf("%s, %v: %w", r.server, r.latency, err)
		}
		ratio := spreadOf(ratios(piped, loop))
		t.add(r.server, r.latency, spreadOf(loop), spreadOf(piped), ratio)
		if r.goal > 0 {
			b.report.Ratios = append(b.report.Ratios, atLeast(fmt.Sprintf("replay with %v of added latency: pipelined ÷ closed loop", r.latency), ratio, r.goal, "×"))
		}
	}
	b.report.Tables = append(b.report.Tables, t)
	return nil
}

// replay returns the rates of both ways, one per round, interleaved.
func (b *bench) replay(ctx context.Context, url string, latency time.Duration) (loop, piped []float64, err error) {
	if latency > 0 {
		d, err := delay(strings.TrimPrefix(url, "http://"), latency/2)
		if err != nil {
			return nil, nil, err
		}
		defer d.close()
		url = d.url()
	}
	env, err := openenv.New(echo.Spec, url, openenv.WithPipelining(pipelined))
	if err != nil {
		return nil, nil, err
	}
	err = openenv.Use(ctx, env, func(env *echoClient) error {
		if _, err := env.Async().Reset().Await(ctx); err != nil {
			return err
		}
		for round := range b.cfg.rounds + 1 {
			l, errLoop := closedLoop(ctx, env, b.cfg.round)
			p, errPiped := pipeline(ctx, env, b.cfg.round)
			if err := errors.Join(errLoop, errPiped); err != nil {
				return err
			}
			if round > 0 {
				loop, piped = append(loop, l), append(piped, p)
			}
		}
		return nil
	})
	return loop, piped, err
}

func closedLoop(ctx context.Context, env *echoClient, d time.Duration) (rate float64, err error) {
	a := echo.Action{Message: message(small)}
	begin := time.Now()
	steps, err := repeat(ctx, func(ctx context.Context) error { return await(ctx, env, a) }, begin.Add(d))
	return float64(steps) / time.Since(begin).Seconds(), err
}

// pipeline keeps a window of started steps and waits for the oldest. Its last step has
// ended when it returns, so that the next call may be of the other face.
func pipeline(ctx context.Context, env *echoClient, d time.Duration) (rate float64, err error) {
	a := echo.Action{Message: message(small)}
	var window []*openenv.Future[openenv.StepResult[echo.Observation]]
	begin, steps := time.Now(), 0
	for {
		more := time.Since(begin) < d
		if more {
			window = append(window, env.Async().Step(a).Start(ctx))
		}
		if len(window) == 0 {
			return float64(steps) / time.Since(begin).Seconds(), nil
		}
		if more && len(window) < 2*pipelined {
			continue
		}
		if _, err := window[0].Await(ctx); err != nil {
			return 0, err
		}
		window, steps = window[1:], steps+1
	}
}
