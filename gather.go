package openenv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
)

// FutureError is the error of one of several futures.
type FutureError struct {
	Index int
	Err   error
}

func (e *FutureError) Error() string { return fmt.Sprintf("future %d: %v", e.Index, e.Err) }
func (e *FutureError) Unwrap() error { return e.Err }

// AwaitAll starts the futures in order and waits for all of them; one that fails does
// not cancel its siblings. It returns a value per future, the zero value for those
// that failed, and their errors joined, each a *FutureError.
func AwaitAll[T any](ctx context.Context, fs ...*Future[T]) ([]T, error) {
	for _, f := range fs {
		f.Start(ctx)
	}
	values := make([]T, len(fs))
	var errs []error
	for i, f := range fs {
		value, err := f.Await(ctx)
		if err != nil {
			errs = append(errs, &FutureError{Index: i, Err: err})
			continue
		}
		values[i] = value
	}
	return values, errors.Join(errs...)
}

// AsCompleted starts the futures in order and yields each with its index when it is
// settled. When ctx ends, the sequence ends once it has yielded what is settled; the
// consumer may also stop early. Futures that were not yielded go on.
func AsCompleted[T any](ctx context.Context, fs ...*Future[T]) iter.Seq2[int, *Future[T]] {
	return func(yield func(int, *Future[T]) bool) {
		settled := make(chan int, len(fs))
		stop := make(chan struct{})
		var watchers sync.WaitGroup
		defer watchers.Wait()
		defer close(stop)
		for i, f := range fs {
			f.Start(ctx)
			watchers.Go(func() {
				select {
				case <-f.done:
					settled <- i
				case <-stop:
				}
			})
		}
		yielded := make([]bool, len(fs))
		for range fs {
			select {
			case i := <-settled:
				yielded[i] = true
				if !yield(i, fs[i]) {
					return
				}
			case <-ctx.Done():
				yieldSettled(fs, yielded, yield)
				return
			}
		}
	}
}

// yieldSettled yields the rest of what is settled when nobody waits any longer.
func yieldSettled[T any](fs []*Future[T], yielded []bool, yield func(int, *Future[T]) bool) {
	for i, f := range fs {
		if _, err := f.Result(); yielded[i] || errors.Is(err, ErrPending) {
			continue
		}
		if !yield(i, f) {
			return
		}
	}
}
