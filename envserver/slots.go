package envserver

import "sync"

// slots counts the sessions of a server. A slot is taken before an environment is
// built and given back on every way out, so that the limit holds at each moment.
type slots struct {
	limit int
	mu    sync.Mutex
	used  int
}

// take reports whether a slot was free, and how many are in use.
func (s *slots) take() (used int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.limit {
		return s.used, false
	}
	s.used++
	return s.used, true
}

func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
}

func (s *slots) active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
