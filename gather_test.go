package openenv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openenv-go/openenv"
)

// lazily is a future that takes d and returns n, or fails when n is negative.
func lazily(n int, d time.Duration) *openenv.Future[int] {
	return openenv.Lazy(func(ctx context.Context) (int, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if n < 0 {
			return n, fmt.Errorf("failure %d", n)
		}
		return n, nil
	})
}

// AwaitAll returns the values in order, zero for what failed, and cancels nobody.
func TestAwaitAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		values, err := openenv.AwaitAll(t.Context(), lazily(1, 3*time.Second), lazily(-2, time.Second), lazily(3, 2*time.Second), lazily(-4, 0))
		if fmt.Sprint(values) != "[1 0 3 0]" || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", values, time.Since(start))
		}
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok || len(joined.Unwrap()) != 2 {
			t.Fatalf("%v, want two errors joined", err)
		}
		for i, want := range []int{1, 3} {
			failed := as[*openenv.FutureError](t, "part", joined.Unwrap()[i])
			if failed.Index != want || failed.Err.Error() != fmt.Sprintf("failure %d", -want-1) {
				t.Errorf("%+v, want index %d", failed, want)
			}
		}
	})
}

func TestAwaitAllOfNothing(t *testing.T) {
	if values, err := openenv.AwaitAll[int](t.Context()); err != nil || len(values) != 0 {
		t.Errorf("%v, %v", values, err)
	}
}

func TestAwaitAllWhoseContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		values, err := openenv.AwaitAll(within(t, time.Second), lazily(1, 0), lazily(2, time.Hour))
		if fmt.Sprint(values) != "[1 0]" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", values, err)
		}
	})
}

// AsCompleted yields in the order of completion.
func TestAsCompleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fs := []*openenv.Future[int]{lazily(0, 3*time.Second), lazily(1, time.Second), lazily(-2, 2*time.Second), lazily(3, 0)}
		var order []int
		for i, f := range openenv.AsCompleted(t.Context(), fs...) {
			if f != fs[i] {
				t.Errorf("future %d is another one", i)
			}
			if _, err := f.Result(); errors.Is(err, openenv.ErrPending) {
				t.Errorf("future %d is not settled", i)
			}
			order = append(order, i)
		}
		if fmt.Sprint(order) != "[3 1 2 0]" {
			t.Errorf("order %v", order)
		}
	})
}

// A consumer that stops early leaves no goroutine, and the futures go on.
func TestAsCompletedStoppedEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := lazily(1, time.Hour)
		for i := range openenv.AsCompleted(t.Context(), slow, lazily(2, 0)) {
			if i != 1 {
				t.Errorf("future %d first", i)
			}
			break
		}
		if v, err := slow.Await(t.Context()); v != 1 || err != nil {
			t.Errorf("%v, %v", v, err)
		}
	})
}

// When ctx ends the sequence ends, after what is settled.
func TestAsCompletedWhoseContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		settled := lazily(1, 0)
		if _, err := settled.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		run, stop := context.WithCancel(t.Context())
		defer stop()
		running := lazily(2, time.Hour).Start(run) // bounded by a ctx of its own
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var order []int
		took := after(func() {
			for i := range openenv.AsCompleted(ended, running, settled) {
				order = append(order, i)
			}
		})
		if fmt.Sprint(order) != "[1]" || took != 0 {
			t.Errorf("yielded %v after %v", order, took)
		}
		synctest.Wait()
		if _, err := running.Result(); !errors.Is(err, openenv.ErrPending) {
			t.Errorf("the running future: %v", err)
		}
	})
}
