package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/record"
)

// plainInterval is the time between two lines where no terminal is.
const plainInterval = 5 * time.Second

// rolloutProgress shows how far a run is until stop is called: a bar on a terminal, and
// a line now and then elsewhere.
func (s *Streams) rolloutProgress(run *rollout.Rollout) (stop func()) {
	if s.ErrTerminal {
		return s.progress(func() string { return barLine(run.Progress()) })
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticks := time.NewTicker(plainInterval)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				s.note("oenv: " + progressText(run.Progress()) + "\n")
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// barWidth is the columns of the bar.
const barWidth = 20

func barLine(p rollout.Progress) string {
	full := 0
	if p.Total > 0 {
		full = p.Episodes * barWidth / p.Total
	}
	return "[" + strings.Repeat("█", full) + strings.Repeat("·", barWidth-full) + "] " + progressText(p)
}

// progressText is what is known of a run: episodes, speed, return, endings, time left.
func progressText(p rollout.Progress) string {
	seconds := p.Elapsed.Seconds()
	speed := 0.0
	if seconds > 0 {
		speed = float64(p.Steps) / seconds
	}
	text := fmt.Sprintf("%d/%d episodes, %.0f steps/s, mean return %.4g", p.Episodes, p.Total, speed, p.MeanReturn)
	if endings := endingsText(p.Endings); endings != "" {
		text += ", " + endings
	}
	if p.Episodes > 0 && p.Episodes < p.Total {
		left := time.Duration(float64(p.Elapsed) / float64(p.Episodes) * float64(p.Total-p.Episodes))
		text += ", " + left.Round(time.Second).String() + " left"
	}
	return text
}

// endingOrder is the order in which endings are told.
var endingOrder = []record.Ending{record.Terminated, record.Truncated, record.EnvError, record.Lost, record.Cancelled}

func endingsText(endings map[record.Ending]int) string {
	var parts []string
	for _, ending := range endingOrder {
		if n := endings[ending]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, endingName(ending)))
		}
	}
	return strings.Join(parts, ", ")
}

func endingName(ending record.Ending) string { return strings.ReplaceAll(string(ending), "_", " ") }
