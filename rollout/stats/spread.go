package stats

import "math"

// spread counts durations in classes that grow by 3 %, so that any number of them
// takes little memory.
type spread struct {
	classes []int
	count   int
	max     float64
}

const (
	growth   = 1.03
	smallest = 1e-3 // milliseconds; what is quicker is in the first class
	longest  = 1e8  // and what is slower in the last
)

func (s *spread) add(ms float64) {
	class := 0
	if ms > smallest {
		class = int(math.Ceil(math.Log(min(ms, longest)/smallest) / math.Log(growth)))
	}
	for len(s.classes) <= class {
		s.classes = append(s.classes, 0)
	}
	s.classes[class]++
	s.count++
	s.max = max(s.max, ms)
}

// at is the upper end of the class that the quantile falls into.
func (s *spread) at(q float64) float64 {
	rank := int(math.Ceil(q * float64(s.count)))
	for class, n := range s.classes {
		if rank -= n; rank <= 0 {
			return min(smallest*math.Pow(growth, float64(class)), s.max)
		}
	}
	return s.max
}

func (s *spread) latency() Latency {
	if s.count == 0 {
		return Latency{}
	}
	return Latency{Count: s.count, P50: s.at(0.5), P90: s.at(0.9), P99: s.at(0.99), Max: s.max}
}
