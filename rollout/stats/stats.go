// Package stats sums up episodes: how they ended, their returns and lengths, how long
// their steps took.
//
//	var c stats.Collector
//	for _, e := range file.Episodes {
//		c.Add(e)
//	}
//	fmt.Println(c.Summary().Returns.Mean)
//
// Returns and lengths are those of the episodes that were terminated or truncated. An
// episode that the environment failed or the infrastructure lost is counted by its
// ending and is in no mean.
package stats

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/openenv-go/openenv/rollout/record"
)

// Summary is what is known of some episodes. As JSON it is what "oenv stats --json"
// prints.
type Summary struct {
	Episodes int                   `json:"episodes"`
	Endings  map[record.Ending]int `json:"endings"`
	Limits   map[record.Limit]int  `json:"limits,omitempty"` // of the truncated ones
	Attempts int                   `json:"attempts"`
	// LostAttempts are those that the infrastructure ended.
	LostAttempts   int          `json:"lost_attempts"`
	Returns        Distribution `json:"returns"`
	Lengths        Distribution `json:"lengths"`
	Steps          int          `json:"steps"` // of all episodes
	Seconds        float64      `json:"seconds"`
	StepsPerSecond float64      `json:"steps_per_second"`
	Latency        Latency      `json:"latency_ms"` // of a step's round trip
}

// Distribution describes some numbers. Of none, all fields are 0.
type Distribution struct {
	Count  int     `json:"count"`
	Mean   float64 `json:"mean"`
	Std    float64 `json:"std"` // of the sample
	Min    float64 `json:"min"`
	P10    float64 `json:"p10"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Max    float64 `json:"max"`
}

// Latency is percentiles in milliseconds, up to 3 % above the true ones; the longest
// is exact.
type Latency struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Collector takes episodes and sums them up. The zero value has none. It is not safe
// for concurrent use.
type Collector struct {
	episodes, attempts, lost, steps int
	endings                         map[record.Ending]int
	limits                          map[record.Limit]int
	returns, lengths                []float64
	sum                             float64
	latency                         spread
	first, last                     time.Time
}

// Add counts an episode.
func (c *Collector) Add(e *record.Episode) {
	if c.endings == nil {
		c.endings = map[record.Ending]int{}
		c.limits = map[record.Limit]int{}
	}
	c.episodes++
	c.endings[e.Ending]++
	if e.Ending == record.Truncated {
		c.limits[e.Limit]++
	}
	c.steps += e.Steps
	if e.Ending.Counts() {
		c.returns = append(c.returns, e.Return)
		c.lengths = append(c.lengths, float64(e.Steps))
		c.sum += e.Return
	}
	for _, a := range e.Attempts {
		c.attempt(a)
	}
}

func (c *Collector) attempt(a record.Attempt) {
	c.attempts++
	if a.Ending == record.Lost {
		c.lost++
	}
	var total float64
	for i, ms := range a.Millis {
		total += ms
		if i > 0 { // the first is the reset
			c.latency.add(ms)
		}
	}
	end := a.Started.Add(time.Duration(total * float64(time.Millisecond)))
	if c.first.IsZero() || a.Started.Before(c.first) {
		c.first = a.Started
	}
	if end.After(c.last) {
		c.last = end
	}
}

// Episodes is the number of episodes so far, Steps that of their steps, MeanReturn the
// mean of the returns that count. They are cheap, for a display.
func (c *Collector) Episodes() int { return c.episodes }

// Steps is the number of steps of all episodes.
func (c *Collector) Steps() int { return c.steps }

// MeanReturn is the mean of the returns that count, 0 of none.
func (c *Collector) MeanReturn() float64 {
	if len(c.returns) == 0 {
		return 0
	}
	return c.sum / float64(len(c.returns))
}

// Endings counts the episodes by how they ended. The map is the caller's.
func (c *Collector) Endings() map[record.Ending]int {
	out := make(map[record.Ending]int, len(c.endings))
	maps.Copy(out, c.endings)
	return out
}

// Returns are the returns that count, sorted. The slice is the caller's.
func (c *Collector) Returns() []float64 { return slices.Sorted(slices.Values(c.returns)) }

// Summary sums up what was added. The time is that between the first attempt's start
// and the last one's end.
func (c *Collector) Summary() Summary {
	s := Summary{
		Episodes: c.episodes, Endings: c.Endings(), Limits: map[record.Limit]int{},
		Attempts: c.attempts, LostAttempts: c.lost, Steps: c.steps,
		Returns: Describe(c.returns), Lengths: Describe(c.lengths), Latency: c.latency.latency(),
		Seconds: c.last.Sub(c.first).Seconds(),
	}
	maps.Copy(s.Limits, c.limits)
	if s.Seconds > 0 {
		s.StepsPerSecond = float64(s.Steps) / s.Seconds
	}
	return s
}

// Describe describes numbers in any order.
func Describe(values []float64) Distribution {
	if len(values) == 0 {
		return Distribution{}
	}
	sorted := slices.Sorted(slices.Values(values))
	var mean, squares float64 // by Welford, which does not cancel
	for i, v := range sorted {
		delta := v - mean
		mean += delta / float64(i+1)
		squares += delta * (v - mean)
	}
	d := Distribution{
		Count: len(sorted), Mean: mean, Min: sorted[0], Max: sorted[len(sorted)-1],
		P10: quantile(sorted, 0.1), Median: quantile(sorted, 0.5), P90: quantile(sorted, 0.9),
	}
	if len(sorted) > 1 {
		d.Std = math.Sqrt(squares / float64(len(sorted)-1))
	}
	return d
}

// quantile interpolates between the two nearest values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
