package plot

import (
	"math"
	"strconv"
)

// Axis is how numbers become places.
type Axis struct {
	Label string
	Log   bool // values must be above 0; others are left out
}

// scale maps the values of an axis to a range of pixels.
type scale struct {
	log      bool
	low      float64
	high     float64
	from, to float64
}

// newScale covers the values; a linear one begins at 0.
func newScale(a Axis, values []float64, from, to float64) scale {
	s := scale{log: a.Log, low: math.Inf(1), high: math.Inf(-1), from: from, to: to}
	for _, v := range values {
		if s.shows(v) {
			s.low, s.high = min(s.low, v), max(s.high, v)
		}
	}
	switch {
	case math.IsInf(s.low, 1):
		s.low, s.high = 1, 10
	case a.Log:
		s.low = math.Pow(10, math.Floor(math.Log10(s.low)))
		s.high = math.Pow(10, math.Ceil(math.Log10(s.high)))
		if s.low == s.high {
			s.high *= 10
		}
	default:
		s.low = min(0, s.low)
		if s.high == s.low {
			s.high = s.low + 1
		}
	}
	return s
}

func (s scale) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!s.log || v > 0)
}

func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(v), math.Log10(low), math.Log10(high)
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// ticks are round values: decades of a logarithmic scale, a handful of a linear one.
func (s scale) ticks() []float64 {
	var ticks []float64
	if s.log {
		for v := s.low; v <= s.high*1.0001; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	step := roundStep((s.high - s.low) / 5)
	for i := math.Ceil(s.low / step); i*step <= s.high; i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}

// roundStep is the smallest of 1, 2 and 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

// number is a value as people read it: 0.5, 40, 2k, 16M.
func number(v float64) string {
	suffix := ""
	for _, s := range []string{"k", "M", "G"} {
		if math.Abs(v) < 1000 {
			break
		}
		v, suffix = v/1000, s
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) + suffix
}
