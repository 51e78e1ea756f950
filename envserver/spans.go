package envserver

import "sort"

// maxSpans bounds how many gaps a session remembers. A client that leaves more behind
// cannot ask about its oldest requests any more.
const maxSpans = 1024

// span is a run of numbers without a gap.
type span struct{ from, to uint64 }

// spans are the numbers of the requests that a session has begun with, each greater than
// the one before. Numbers up to floor are forgotten.
type spans struct {
	runs  []span
	floor uint64
}

// greatest is the newest number, 0 before the first.
func (s *spans) greatest() uint64 {
	if len(s.runs) == 0 {
		return 0
	}
	return s.runs[len(s.runs)-1].to
}

// add takes in a number greater than the greatest.
func (s *spans) add(id uint64) {
	if n := len(s.runs); n > 0 && s.runs[n-1].to == id-1 {
		s.runs[n-1].to = id
		return
	}
	if len(s.runs) == maxSpans {
		half := s.runs[maxSpans/2:]
		s.floor = s.runs[maxSpans/2-1].to
		s.runs = s.runs[:copy(s.runs, half)]
	}
	s.runs = append(s.runs, span{id, id})
}

func (s *spans) has(id uint64) bool {
	i := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].to >= id })
	return i < len(s.runs) && s.runs[i].from <= id
}
