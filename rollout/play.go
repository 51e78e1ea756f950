package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/rollout/record"
)

// task is an episode that is to be played, and what became of it so far.
type task struct {
	episode  int
	seed     int64
	attempts []record.Attempt
}

// outcome is the end of an attempt.
type outcome struct {
	ending  record.Ending
	limit   record.Limit
	err     error
	fatal   error // ends the run
	broken  bool  // the session is not to be used again
	returns float64
	steps   int
	tape    tape
}

// errTimeLimit is the cause of an attempt's ctx when its time is up.
var errTimeLimit = errors.New("time limit of the episode")

// play makes one attempt.
func (r *runner[A, O, S]) play(ctx context.Context, l *lease[A, O, S], t *task) *outcome {
	out := new(outcome)
	limited, cancel := ctx, context.CancelFunc(func() {})
	if limit := r.cfg.Limits.Time; limit > 0 {
		limited, cancel = context.WithTimeoutCause(ctx, limit, errTimeLimit)
	}
	defer cancel()
	err := r.episode(onTape(limited, &out.tape), l.client, t, out)
	if out.fatal != nil {
		out.ending, out.err, out.broken = record.Cancelled, out.fatal, true
		return out
	}
	if err != nil {
		out.judge(ctx, limited, err)
	}
	if out.ending == record.EnvError {
		// A server that shuts down answers a step with an error, too, and is gone then.
		if _, gone := l.client.State(limited); gone != nil && infrastructure(gone) {
			out.ending, out.err, out.broken = record.Lost, gone, true
		}
	}
	return out
}

// episode plays from reset to end. An error is one of the session; what the policy
// does wrong is fatal.
func (r *runner[A, O, S]) episode(ctx context.Context, c *openenv.Client[A, O, S], t *task, out *outcome) (err error) {
	res, err := c.Reset(ctx, r.cfg.params(t.seed)...)
	if err != nil {
		return err
	}
	out.add(res.Reward)
	player, err := r.policy.Begin(ctx, Start{
		Episode: t.episode, Attempt: len(t.attempts) + 1, Seed: t.seed,
		Rand: episodeRand(r.cfg.Seed, t.episode), Schema: r.schema,
	})
	if err != nil {
		return out.policyFailed(ctx, "begin", err)
	}
	defer func() {
		if failed := player.Close(); failed != nil && out.fatal == nil {
			err = errors.Join(err, out.policyFailed(ctx, "close", failed))
		}
	}()
	for {
		if out.over(res.Done, &r.cfg.Limits) {
			return nil
		}
		action, err := player.Act(ctx, res)
		switch {
		case errors.Is(err, ErrStop):
			out.ending, out.limit = record.Truncated, record.LimitPolicy
			return nil
		case err != nil:
			return out.policyFailed(ctx, "act", err)
		}
		if res, err = c.Step(ctx, action); err != nil {
			if bad := r.encodes(action); bad != nil {
				out.fatal = fmt.Errorf("policy %s: %w", r.policy.Name(), err) // it was never sent
			}
			return err
		}
		out.steps++
		r.stepped()
		out.add(res.Reward)
	}
}

// encodes tells an action that cannot be sent from a step that failed.
func (r *runner[A, O, S]) encodes(action A) error {
	value := any(action)
	if r.spec.EncodeAction != nil {
		var err error
		if value, err = r.spec.EncodeAction(action); err != nil {
			return err
		}
	}
	buf := wire.GetBuffer()
	defer wire.PutBuffer(buf)
	return wire.AppendFrame(buf, wire.TypeStep, value)
}

func (o *outcome) add(reward *float64) {
	if reward != nil {
		o.returns += *reward
	}
}

// policyFailed is an error of a policy: the end of the run, unless it only says that
// its ctx has ended.
func (o *outcome) policyFailed(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil {
		o.fatal = fmt.Errorf("policy: %s: %w", what, err)
	}
	return err
}

// over reports that the episode has ended, after a reset or a step.
func (o *outcome) over(done bool, limits *record.Limits) bool {
	switch {
	case done:
		o.ending = record.Terminated
	case limits.MaxReturn != nil && o.returns >= *limits.MaxReturn, limits.MinReturn != nil && o.returns <= *limits.MinReturn:
		o.ending, o.limit = record.Truncated, record.LimitReturn
	case limits.Steps > 0 && o.steps >= limits.Steps:
		o.ending, o.limit = record.Truncated, record.LimitSteps
	default:
		return false
	}
	return true
}

// judge says what an error was the end of.
func (o *outcome) judge(run, attempt context.Context, err error) {
	o.err = err
	switch {
	case run.Err() != nil:
		o.ending, o.broken = record.Cancelled, true
	case attempt.Err() != nil:
		// The step that was under way is lost with its session.
		o.ending, o.limit, o.err, o.broken = record.Truncated, record.LimitTime, nil, true
	case infrastructure(err):
		o.ending, o.broken = record.Lost, true
	case answered(err):
		o.ending = record.EnvError
	default:
		o.ending, o.broken = record.Lost, true
	}
}

// infrastructure reports that err is of the session and not of the environment in it.
func infrastructure(err error) bool {
	if _, ok := errors.AsType[*openenv.SessionLostError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*openenv.ConnectError](err); ok {
		return true
	}
	refused, ok := errors.AsType[*openenv.ServerError](err)
	ends := ok && (refused.Code == openenv.CodeCapacityReached || refused.Code == openenv.CodeFactory || refused.Code == openenv.CodeSession)
	return ends || errors.Is(err, openenv.ErrMessageTimeout) || errors.Is(err, openenv.ErrClosed)
}

// answered reports that the environment has answered, with an error or with what cannot
// be used.
func answered(err error) bool {
	if _, ok := errors.AsType[*openenv.ServerError](err); ok {
		return true
	}
	_, ok := errors.AsType[*openenv.DecodeError](err)
	return ok
}

// attempt is the outcome as it goes on file.
func (o *outcome) attempt(number int, server string, started time.Time) record.Attempt {
	a := record.Attempt{
		Number: number, Ending: o.ending, Limit: o.limit, Steps: o.steps,
		Server: server, Started: started, Millis: o.tape.millis,
	}
	if o.err != nil {
		a.Error = o.err.Error()
	}
	return a
}

// finish is the episode as it goes on file, after its last attempt.
func (o *outcome) finish(t *task) *record.Episode {
	e := &record.Episode{
		Index: t.episode, Seed: &t.seed, Ending: o.ending, Limit: o.limit,
		Return: o.returns, Steps: o.steps, Exchanges: o.tape.exchanges, Attempts: t.attempts,
	}
	if o.err != nil {
		e.Error = errorText(o.err)
	}
	return e
}

// errorText is what of an error is the same on every server: the code and message of an
// environment's error, without an address.
func errorText(err error) string {
	refused, ok := errors.AsType[*openenv.ServerError](err)
	if ok && !infrastructure(err) {
		return fmt.Sprintf("%s: %s", refused.Code, refused.Message)
	}
	return err.Error()
}
