package engine

import (
	"context"
	"time"
)

// Linger is a ctx for a call that must not be cut short with its caller: it ends only
// some time after ctx has. What it creates can then be removed.
func Linger(ctx context.Context, late time.Duration) (context.Context, context.CancelFunc) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(late)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-whole.Done():
		}
	})
	return whole, func() {
		stop()
		cancel()
	}
}
