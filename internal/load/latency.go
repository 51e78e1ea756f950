package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is how long something took: percentiles that are within a thousandth of
// what was measured, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// longest is the largest value that a histogram tells from a larger one.
const longest = time.Hour

// recorder takes durations from many goroutines.
type recorder struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram // of microseconds
}

func newRecorder() *recorder {
	return &recorder{hist: hdrhistogram.New(1, longest.Microseconds(), 3)}
}

func (r *recorder) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.hist.RecordValue(min(max(d, time.Microsecond), longest).Microseconds()) // it is in the range
}

func (r *recorder) latency() Latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := func(q float64) float64 { return float64(r.hist.ValueAtQuantile(q)) / 1e3 }
	return Latency{
		Count: r.hist.TotalCount(),
		Mean:  r.hist.Mean() / 1e3,
		P50:   at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(r.hist.Max()) / 1e3,
	}
}
