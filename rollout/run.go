package rollout

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/stats"
)

// Rollout is a run that is under way. Its episodes are taken with Episodes, and Wait
// ends it in any case: it must be called. Progress and Skipped may be called at any
// time, from any goroutine.
type Rollout struct {
	total, skipped int
	started        time.Time
	steps          atomic.Int64
	sessions       atomic.Int64
	results        chan *record.Episode // closed when all workers have ended
	stop           context.CancelCauseFunc
	done           chan struct{} // closed after err was set
	err            error

	mu   sync.Mutex
	sums stats.Collector
}

// errStopped is a run whose caller wants no more episodes.
var errStopped = errors.New("run was stopped")

// Run begins a run. It returns when the servers were asked for their schemas, and the
// file, if there is one, is open; an error means that nothing was played. ctx bounds
// the whole run: when it ends, what is under way is cancelled and is on file as such,
// and all that was finished is on file, too.
func Run[A, O, S any](ctx context.Context, spec openenv.Spec[A, O, S], target Target, policy Policy[A, O], cfg Config) (*Rollout, error) {
	run, err := begin(ctx, spec, target, policy, cfg)
	if err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	return run, nil
}

func begin[A, O, S any](ctx context.Context, spec openenv.Spec[A, O, S], target Target, policy Policy[A, O], cfg Config) (*Rollout, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.fill()
	if policy == nil {
		return nil, errors.New("policy is missing")
	}
	opts := slices.Concat(cfg.survival(), cfg.Options, []openenv.Option{openenv.WithInterceptor(takeDown)})
	clients, err := Open(ctx, spec, target, opts...)
	if err != nil {
		return nil, err
	}
	servers := make([]*server[A, O, S], len(clients))
	for i, c := range clients {
		servers[i] = &server[A, O, S]{root: c, url: c.BaseURL(), owned: i >= len(target.urls)}
	}
	r := &runner[A, O, S]{spec: spec, policy: policy, cfg: cfg}
	if err := r.prepare(ctx, servers); err != nil {
		return nil, errors.Join(err, closeAll(clients))
	}
	r.fleet = newFleet(servers, &r.cfg)
	return r.start(ctx), nil
}

// prepare asks the servers what they are and opens the file.
func (r *runner[A, O, S]) prepare(ctx context.Context, servers []*server[A, O, S]) error {
	schema, digest, err := inspect(ctx, servers)
	if err != nil {
		return err
	}
	r.schema = schema
	if r.cfg.Out == "" {
		return nil
	}
	id, err := r.cfg.identity(r.policy.Name(), digest)
	if err != nil {
		return err
	}
	raw, err := rawSchema(schema)
	if err != nil {
		return err
	}
	header := record.Header{Kind: record.KindRollout, Identity: id, Schema: raw}
	open := record.Create
	if r.cfg.Resume {
		open = record.Resume
	}
	r.out, err = open(r.cfg.Out, header, r.cfg.ObservationLimit)
	return err
}

// Episodes yields each episode when it is finished, in the order in which they are: it
// is on file then. A run that fails yields its error at the end. Episodes are not
// played faster than they are taken. Leaving the loop stops the run.
func (r *Rollout) Episodes() iter.Seq2[*record.Episode, error] {
	return func(yield func(*record.Episode, error) bool) {
		for e := range r.results {
			if !yield(e, nil) {
				r.stop(errStopped)
				return
			}
		}
		<-r.done
		if r.err != nil {
			yield(nil, r.err)
		}
	}
}

// Wait plays the rest and returns when all is closed, with what is known of the
// episodes that this run has played. The error is that of the run: the end of its ctx,
// a policy or a file that failed, or servers that could not be reached. Lost episodes
// are none: see the summary's endings.
func (r *Rollout) Wait() (stats.Summary, error) {
	for range r.results { // what nobody takes is on file
	}
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sums.Summary(), r.err
}

// Progress is how far a run is.
type Progress struct {
	Episodes   int // that were finished by this run
	Total      int // that this run has to play
	Steps      int
	MeanReturn float64
	Endings    map[record.Ending]int
	Sessions   int // that are open
	Elapsed    time.Duration
}

// Progress tells how far the run is.
func (r *Rollout) Progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{
		Episodes: r.sums.Episodes(), Total: r.total, Steps: int(r.steps.Load()),
		MeanReturn: r.sums.MeanReturn(), Endings: r.sums.Endings(),
		Sessions: int(r.sessions.Load()), Elapsed: time.Since(r.started),
	}
}

// Skipped is the number of episodes that were on file when the run began.
func (r *Rollout) Skipped() int { return r.skipped }

// Returns are the returns so far of the episodes that count, sorted.
func (r *Rollout) Returns() []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sums.Returns()
}
