package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/record"
)

// pipeline is how many steps of a replay are on the wire at once.
const pipeline = 32

// ReplayReport is what became of a replay.
type ReplayReport struct {
	Episodes int `json:"episodes"` // that were played again
	Skipped  int `json:"skipped"`  // that were lost or cancelled, and have nothing to compare
	Steps    int `json:"steps"`
	// Divergences are the first of each episode that has one.
	Divergences []Divergence `json:"divergences"`
}

// Replay plays the episodes of a record again, one after the other in one session, with
// the seeds and actions that it has, and compares every answer. Steps are pipelined as
// long as the record has no errors: after one, what comes next may depend on it. A
// recording is replayed, too: each of its sessions is an episode here. The error is of
// the target or the record; a divergence is none.
func Replay(ctx context.Context, file *record.File, target rollout.Target, opts ...openenv.Option) (*ReplayReport, error) {
	report := &ReplayReport{Divergences: []Divergence{}}
	opts = append(slices.Clip(opts), openenv.WithPipelining(pipeline))
	err := withClient(ctx, target, opts, func(c *client) error {
		for _, e := range file.Episodes {
			if e.Ending != "" && !e.Ending.Whole() {
				report.Skipped++
				continue
			}
			found, steps, err := replayEpisode(ctx, c, e)
			report.Steps += steps
			if err != nil {
				return fmt.Errorf("episode %d: %w", e.Index, err)
			}
			report.Episodes++
			if found != nil {
				report.Divergences = append(report.Divergences, *found)
			}
		}
		return nil
	})
	if err != nil {
		return report, fmt.Errorf("replay: %w", err)
	}
	return report, nil
}

// client is what the checks talk through.
type client = openenv.Client[json.RawMessage, json.RawMessage, json.RawMessage]

// withClient gives f a client of the first server of a target.
func withClient(ctx context.Context, target rollout.Target, opts []openenv.Option, f func(*client) error) (err error) {
	clients, err := rollout.Open(ctx, rollout.Raw, target, opts...)
	if err != nil {
		return err
	}
	defer func() {
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
	}()
	return f(clients[0])
}

// replayEpisode plays one episode. Replies that are no observation are compared by
// their code; state and mcp frames are passed over, since they change nothing that a
// step would not show.
func replayEpisode(ctx context.Context, c *client, e *record.Episode) (*Divergence, int, error) {
	session, err := c.NewSession(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = session.Close() }() // its end is nobody's news
	steps := 0
	var ahead []pending
	check := func() (*Divergence, error) {
		for _, p := range ahead {
			res, err := p.await(ctx)
			if found, err := p.compare(res, err); found != nil || err != nil {
				return found, err
			}
		}
		ahead = ahead[:0]
		return nil, nil //nolint:nilnil // nothing differs
	}
	for i := range e.Exchanges {
		x := &e.Exchanges[i]
		if x.Op != "reset" && x.Op != "step" || x.Type == "" {
			continue
		}
		if x.Op == "step" {
			steps++
		} else {
			steps = 0
		}
		ahead = append(ahead, begin(ctx, session, x, e.Index, steps))
		if x.Op == "step" && x.Type == "observation" && len(ahead) < pipeline {
			continue
		}
		if found, err := check(); found != nil || err != nil {
			return found, steps, err
		}
	}
	found, err := check()
	return found, steps, err
}

// pending is a call that was begun.
type pending struct {
	x       *record.Exchange
	episode int
	step    int
	await   func(context.Context) (openenv.StepResult[json.RawMessage], error)
}

// begin sends a recorded request.
func begin(ctx context.Context, session *client, x *record.Exchange, episode, step int) pending {
	p := pending{x: x, episode: episode, step: step}
	if x.Op == "step" {
		p.await = session.Async().Step(x.Data).Start(ctx).Await
		return p
	}
	params, err := resetParams(x.Data)
	if err != nil {
		p.await = func(context.Context) (openenv.StepResult[json.RawMessage], error) {
			return openenv.StepResult[json.RawMessage]{}, err
		}
		return p
	}
	p.await = session.Async().Reset(params...).Start(ctx).Await
	return p
}

// resetParams are the parameters of a recorded reset.
func resetParams(data []byte) ([]openenv.ResetParam, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("parameters of the reset: %w", err)
	}
	params := make([]openenv.ResetParam, 0, len(fields))
	for name, value := range fields {
		params = append(params, openenv.Param(name, value))
	}
	return params, nil
}

// compare compares an answer with the recorded one.
func (p *pending) compare(res openenv.StepResult[json.RawMessage], err error) (*Divergence, error) {
	at := func(d *Divergence) *Divergence {
		if d != nil {
			d.Episode, d.Step = p.episode, p.step
		}
		return d
	}
	refused, isRefused := errors.AsType[*openenv.ServerError](err)
	if err != nil && !isRefused {
		return nil, err
	}
	got := absent
	if isRefused {
		got = string(refused.Code)
	}
	if p.x.Type == "error" {
		want, err := errorCode(p.x)
		if err != nil || want == got {
			return nil, err
		}
		return at(&Divergence{Path: "error", Want: want, Got: got}), nil
	}
	want, err := p.x.Result()
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", p.step, err)
	}
	if isRefused {
		return at(&Divergence{Path: "error", Want: absent, Got: got + ": " + refused.Message}), nil
	}
	return at(diffResults(want, record.Result{Observation: res.Observation, Reward: res.Reward, Done: res.Done})), nil
}

func errorCode(x *record.Exchange) (string, error) {
	data, err := x.Reply()
	if err != nil {
		return "", err
	}
	var failure struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(data, &failure); err != nil {
		return "", fmt.Errorf("recorded error: %w", err)
	}
	return failure.Code, nil
}
