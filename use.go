package openenv

import (
	"context"
)

// Closer is what Use closes: every client.
type Closer interface{ Close() error }

// Use runs f with c and closes c in every case, an error and a panic included. When
// ctx ends first, c is closed at once, so that a call in progress fails. The error is
// that of f, joined with that of Close.
func Use[C Closer](ctx context.Context, c C, f func(C) error) (err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		stop()
		err = join(err, c.Close())
	}()
	return f(c)
}
