package load

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"

	"github.com/openenv-go/openenv"
)

// Failure counts the sessions that failed in one way.
type Failure struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example"` // the first one's text
}

// kinds are the ways to fail, the most telling first. What a server said with a code is
// of that code's kind.
var kinds = []struct {
	name string
	is   func(error) bool
}{
	{"no descriptors", func(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }},
	{"no ports", func(err error) bool { return errors.Is(err, syscall.EADDRNOTAVAIL) }},
	{"refused", func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
	{"timeout", isTimeout},
	{"cancelled", func(err error) bool { return errors.Is(err, context.Canceled) }},
	{"session lost", isA[*openenv.SessionLostError]},
	{"message too big", isA[*openenv.MessageTooBigError]},
	{"bad reply", isA[*openenv.DecodeError]},
	{"not connected", isA[*openenv.ConnectError]},
}

func kindOf(err error) string {
	if refused, ok := errors.AsType[*openenv.ServerError](err); ok {
		return strings.ToLower(string(refused.Code))
	}
	for _, k := range kinds {
		if k.is(err) {
			return k.name
		}
	}
	return "other"
}

func isTimeout(err error) bool {
	return errors.Is(err, openenv.ErrMessageTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT)
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// failures are counted by many sessions.
type failures struct {
	mu   sync.Mutex
	all  []Failure
	errs []error // the first of each kind
}

func (f *failures) add(phase string, err error) {
	kind := phase + ": " + kindOf(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.all {
		if f.all[i].Kind == kind {
			f.all[i].Count++
			return
		}
	}
	f.all = append(f.all, Failure{Kind: kind, Count: 1, Example: err.Error()})
	f.errs = append(f.errs, err)
}
