package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/openenv-go/openenv/provider"
)

// LimitError is the end of the time to become ready. It matches the end of a ctx's.
type LimitError time.Duration

func (e LimitError) Error() string { return fmt.Sprintf("not healthy within %v", time.Duration(e)) }

// Is makes it match context.DeadlineExceeded.
func (LimitError) Is(target error) bool { return target == context.DeadlineExceeded }

// Wrong is what a provider was not given, or given wrongly.
func Wrong(name, setting string, err error) error {
	return &provider.ConfigError{Provider: name, Setting: setting, Err: err}
}
