package rollout

import (
	"context"
	"time"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/rollout/record"
)

// tape takes down the round trips of one attempt.
type tape struct {
	exchanges []record.Exchange
	millis    []float64
}

type tapeKey struct{}

// onTape returns a ctx whose calls are taken down. The tape is the attempt's, whose
// calls come one after the other.
func onTape(ctx context.Context, t *tape) context.Context {
	return context.WithValue(ctx, tapeKey{}, t)
}

// takeDown is the interceptor next to the wire.
func takeDown(ctx context.Context, call *openenv.Call, next func(context.Context) error) error {
	t, ok := ctx.Value(tapeKey{}).(*tape)
	if !ok {
		return next(ctx)
	}
	err := next(ctx)
	took := time.Since(call.Started)
	if !call.Sent.IsZero() && call.Received.After(call.Sent) {
		took = call.Received.Sub(call.Sent)
	}
	t.exchanges = append(t.exchanges, record.NewExchange(call.Request, call.Reply))
	t.millis = append(t.millis, float64(took.Round(time.Microsecond))/float64(time.Millisecond))
	return err
}
