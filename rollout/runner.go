package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout/record"
)

// runner plays the episodes of a run.
type runner[A, O, S any] struct {
	spec   openenv.Spec[A, O, S]
	policy Policy[A, O]
	cfg    Config
	schema openenv.Schema
	fleet  *fleet[A, O, S]
	out    *record.Writer // nil: there is no file
	queue  *queue
	run    *Rollout
	cancel context.CancelCauseFunc
}

// start starts the workers, one for each session, and one goroutine that waits for
// them and closes everything.
func (r *runner[A, O, S]) start(ctx context.Context) *Rollout {
	work, cancel := context.WithCancelCause(ctx)
	r.cancel = cancel
	r.queue = newQueue(r.cfg.Episodes, func(n int) bool { return r.out != nil && r.out.Finished(n) })
	r.run = &Rollout{
		total: r.queue.left, skipped: r.cfg.Episodes - r.queue.left, started: time.Now(), stop: cancel,
		results: make(chan *record.Episode), done: make(chan struct{}),
	}
	var workers sync.WaitGroup
	for range min(r.cfg.Sessions, r.queue.left) {
		workers.Go(func() { r.work(work) })
	}
	go func() {
		defer close(r.run.done)
		workers.Wait()
		err := r.end(ctx, work)
		cancel(nil)
		close(r.run.results)
		errs := []error{err, r.fleet.close()}
		if r.out != nil {
			errs = append(errs, r.out.Close())
		}
		if err := errors.Join(errs...); err != nil {
			r.run.err = fmt.Errorf("rollout: %w", err)
		}
	}()
	return r.run
}

// end is the error of a run whose workers have ended.
func (r *runner[A, O, S]) end(ctx, work context.Context) error {
	left := r.queue.unfinished()
	cause := context.Cause(work)
	switch {
	case cause == nil || errors.Is(cause, errStopped):
		return nil
	case ctx.Err() != nil && left == 0:
		return nil // it came too late
	case ctx.Err() != nil:
		return fmt.Errorf("ended with %d of %d episodes to play: %w", left, r.run.total, cause)
	}
	return cause
}

// work plays episodes, one session after the other, until there are none.
func (r *runner[A, O, S]) work(ctx context.Context) {
	var l *lease[A, O, S]
	giveBack := func(lost bool) {
		if l != nil {
			r.fleet.release(l, lost)
			r.run.sessions.Add(-1)
			l = nil
		}
	}
	defer func() { giveBack(false) }()
	for ctx.Err() == nil && r.queue.pending() {
		if l == nil {
			var err error
			if l, err = r.fleet.acquire(ctx, r.queue.pending); err != nil {
				if ctx.Err() == nil && !errors.Is(err, errNotWanted) {
					r.cancel(err)
				}
				return
			}
			r.run.sessions.Add(1)
		}
		t, ok := r.queue.take(r.seed)
		if !ok {
			return
		}
		started := time.Now()
		out := r.play(ctx, l, t)
		t.attempts = append(t.attempts, out.attempt(len(t.attempts)+1, l.url, started))
		if out.broken {
			giveBack(out.ending == record.Lost)
		}
		r.settle(t, out)
	}
}

// settle puts an episode on file, or back into the queue when it was lost.
func (r *runner[A, O, S]) settle(t *task, out *outcome) {
	if out.fatal != nil {
		r.cancel(out.fatal)
	}
	if out.ending == record.Lost && len(t.attempts) < r.cfg.MaxAttempts {
		r.cfg.Logger.Warn("attempt was lost", "episode", t.episode, "attempt", len(t.attempts), "err", out.err)
		r.queue.putBack(t)
		return
	}
	e := out.finish(t)
	if r.out != nil {
		if err := r.out.Write(e); err != nil {
			r.queue.putBack(t)
			r.cancel(err)
			return
		}
	}
	if e.Ending == record.Cancelled {
		r.queue.putBack(t) // it is not finished
	} else {
		r.queue.finished()
	}
	r.run.mu.Lock()
	r.run.sums.Add(e)
	r.run.mu.Unlock()
	r.run.results <- e
}

func (r *runner[A, O, S]) stepped() { r.run.steps.Add(1) }

// seed is what the reset of an episode asks for.
func (r *runner[A, O, S]) seed(episode int) int64 {
	if s, ok := r.policy.(Seeder); ok {
		if seed, ok := s.EpisodeSeed(episode); ok {
			return seed
		}
	}
	return EpisodeSeed(r.cfg.Seed, episode)
}

// queue hands out episodes in the order of their numbers, those that were lost first.
type queue struct {
	mu    sync.Mutex
	next  int
	total int
	skip  func(int) bool
	again []*task
	left  int // that are not finished
}

func newQueue(total int, skip func(int) bool) *queue {
	q := &queue{total: total, skip: skip}
	for n := range total {
		if !skip(n) {
			q.left++
		}
	}
	return q
}

// pending reports that there is something to take. The caller need not hold anything:
// take may find that somebody else was quicker.
func (q *queue) pending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pass()
	return len(q.again) > 0 || q.next < q.total
}

// pass goes past what need not be played; the caller holds mu.
func (q *queue) pass() {
	for q.next < q.total && q.skip(q.next) {
		q.next++
	}
}

func (q *queue) take(seed func(int) int64) (*task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.again); n > 0 {
		t := q.again[0]
		q.again = q.again[1:]
		return t, true
	}
	q.pass()
	if q.next >= q.total {
		return nil, false
	}
	t := &task{episode: q.next, seed: seed(q.next)}
	q.next++
	return t, true
}

func (q *queue) putBack(t *task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.again = append(q.again, t)
}

func (q *queue) finished() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left--
}

func (q *queue) unfinished() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}
