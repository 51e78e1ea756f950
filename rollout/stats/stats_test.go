package stats_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openenv-go/openenv/rollout/record"
	"github.com/openenv-go/openenv/rollout/stats"
)

func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   stats.Distribution
	}{
		{"none", nil, stats.Distribution{}},
		{"one", []float64{3}, stats.Distribution{Count: 1, Mean: 3, Min: 3, P10: 3, Median: 3, P90: 3, Max: 3}},
		{"unsorted", []float64{4, 0, 2, 1, 3}, stats.Distribution{Count: 5, Mean: 2, Std: math.Sqrt(2.5), Min: 0, P10: 0.4, Median: 2, P90: 3.6, Max: 4}},
		{"large and alike", []float64{1e9 + 1, 1e9 + 2, 1e9 + 3}, stats.Distribution{Count: 3, Mean: 1e9 + 2, Std: 1, Min: 1e9 + 1, P10: 1e9 + 1.2, Median: 1e9 + 2, P90: 1e9 + 2.8, Max: 1e9 + 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := stats.Describe(tt.values); !near(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func near(a, b stats.Distribution) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := 1; i < x.NumField(); i++ {
		if math.Abs(x.Field(i).Float()-y.Field(i).Float()) > 1e-6 {
			return false
		}
	}
	return a.Count == b.Count
}

// What the infrastructure lost and what the environment failed is counted and in no mean.
func TestCollector(t *testing.T) {
	began := time.Unix(100, 0)
	attempt := func(ending record.Ending, ms ...float64) record.Attempt {
		return record.Attempt{Ending: ending, Started: began, Millis: ms}
	}
	var c stats.Collector
	c.Add(&record.Episode{Ending: record.Terminated, Return: 1, Steps: 2, Attempts: []record.Attempt{attempt(record.Lost, 5), attempt(record.Terminated, 500, 100, 400)}})
	c.Add(&record.Episode{Ending: record.Truncated, Limit: record.LimitSteps, Return: 3, Steps: 4, Attempts: []record.Attempt{attempt(record.Truncated)}})
	c.Add(&record.Episode{Ending: record.EnvError, Return: 100, Steps: 1, Attempts: []record.Attempt{attempt(record.EnvError)}})
	c.Add(&record.Episode{Ending: record.Lost, Return: 100, Attempts: []record.Attempt{attempt(record.Lost)}})
	c.Add(&record.Episode{Ending: record.Cancelled, Return: 100, Attempts: []record.Attempt{attempt(record.Cancelled)}})
	s := c.Summary()
	if s.Episodes != 5 || s.Attempts != 6 || s.LostAttempts != 2 || s.Steps != 7 || s.Returns.Count != 2 || s.Returns.Mean != 2 || s.Lengths.Mean != 3 || c.MeanReturn() != 2 {
		t.Errorf("%+v", s)
	}
	if want := map[record.Ending]int{record.Terminated: 1, record.Truncated: 1, record.EnvError: 1, record.Lost: 1, record.Cancelled: 1}; !reflect.DeepEqual(s.Endings, want) {
		t.Errorf("endings %v", s.Endings)
	}
	if s.Seconds != 1 || s.StepsPerSecond != 7 || s.Latency.Count != 2 || s.Latency.Max != 400 || s.Limits[record.LimitSteps] != 1 {
		t.Errorf("%+v", s)
	}
}

// Percentiles are at most 3 % above the true ones, from microseconds to hours.
func TestLatency(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var ms []float64
	for range 5000 {
		ms = append(ms, math.Pow(10, rng.Float64()*9-3))
	}
	var c stats.Collector
	c.Add(&record.Episode{Attempts: []record.Attempt{{Millis: append([]float64{0}, ms...)}}})
	got := c.Summary().Latency
	d := stats.Describe(ms)
	for _, pair := range [][2]float64{{got.P50, d.Median}, {got.P90, d.P90}} {
		if ratio := pair[0] / pair[1]; ratio < 0.99 || ratio > 1.04 {
			t.Errorf("%v, want about %v", pair[0], pair[1])
		}
	}
	if got.Max != d.Max || got.P99 > got.Max || got.P99 < got.P90 {
		t.Errorf("%+v", got)
	}
}

func TestHistogram(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   []stats.Bin
	}{
		{"none", nil, nil},
		{"the same", []float64{2, 2, 2}, []stats.Bin{{2, 2, 3}}},
		{"spread", []float64{0, 1, 2, 3, 4}, []stats.Bin{{0, 2, 2}, {2, 4, 3}}},
		{"too near for classes", []float64{1e300, math.Nextafter(1e300, 2e300)}, []stats.Bin{{1e300, math.Nextafter(1e300, 2e300), 2}}},
		{"too far for a width", []float64{-math.MaxFloat64, math.MaxFloat64}, []stats.Bin{{-math.MaxFloat64, math.MaxFloat64, 2}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := stats.Histogram(tt.values, 2); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestBarsFitTheLine(t *testing.T) {
	bins := []stats.Bin{{-1.5, 0, 1}, {0, 1.5, 1000}, {1.5, 3, 0}, {3, 4.5, 400}}
	lines := stats.Bars(bins, 60)
	want := []string{
		"-1.5 … 0  ▏", "0 … 1.5  ██", "1.5 … 3  ", "3 … 4.5  ██",
	}
	for i, line := range lines {
		if n := len([]rune(line)); n != 60 || !strings.HasPrefix(strings.TrimLeft(line, " "), want[i]) {
			t.Errorf("%q has %d columns", line, n)
		}
	}
}

func TestSVGIsWellFormed(t *testing.T) {
	svg := stats.SVG(stats.Histogram([]float64{1, 2, 2, 5}, 3), `a < b & "c"`)
	dec := xml.NewDecoder(strings.NewReader(svg))
	rects := 0
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	if rects != 4 {
		t.Errorf("%d rectangles, want the ground and three classes", rects)
	}
}
