package rubric

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFinite is a score that is NaN or infinite.
	ErrNotFinite = errors.New("score is not a finite number")
	// ErrEpisodeOver is a pair that came after the last one of an episode.
	ErrEpisodeOver = errors.New("the episode is over; reset first")
)

// PartError is an error of one part: of its description, from [New], or of its score.
type PartError struct {
	Part string // the dotted name
	Err  error
}

func (e *PartError) Error() string { return fmt.Sprintf("rubric %s: %v", e.Part, e.Err) }

func (e *PartError) Unwrap() error { return e.Err }
