package envserver_test

import (
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/openenvtest"
)

// Report 45: with WithLockedThread every hook of a session runs on one OS thread, which
// no other session has; with WithSharedThread all sessions have one.
func TestThreads(t *testing.T) {
	for _, tt := range []struct {
		name    string
		opt     envserver.Option
		threads int
	}{
		{"a thread for each session", envserver.WithLockedThread(), 4},
		{"one for all", envserver.WithSharedThread(), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			var (
				mu   sync.Mutex
				seen []visit
			)
			l := &lab{enter: func(hook string) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, visit{hook, syscall.Gettid()})
			}}
			w := &world{lab: l, t: t, srv: l.server(t, tt.opt)}
			w.at = openenvtest.ServeLoopback(t, w.srv)
			for range 3 { // one after the other, so that seen is in order
				s := w.dial("")
				s.send(`{"type":"reset"}`)
				want(t, s.receive(), "observation")
				for range 20 {
					s.do("x", 0)
				}
				s.send(`{"type":"state"}`)
				want(t, s.receive(), "state")
				s.send(`{"type":"close"}`)
				want(t, s.receive(), "closed 1000")
			}
			if status, body := w.get("/step", `{"action":{"do":"x"}}`); status != 200 {
				t.Errorf("%d %s", status, body)
			}
			var threads []int
			for _, session := range bySession(seen) {
				first := session[0].thread
				for _, v := range session {
					if v.thread != first {
						t.Errorf("%s on thread %d, build on %d", v.hook, v.thread, first)
					}
				}
				if !slices.Contains(threads, first) {
					threads = append(threads, first)
				}
			}
			// A thread that has ended may be followed by one with its id.
			if tt.threads == 1 && len(threads) != 1 || len(bySession(seen)) != 4 {
				t.Errorf("threads %v of %d sessions", threads, len(bySession(seen)))
			}
		})
	}
}

type visit struct {
	hook   string
	thread int
}

func bySession(seen []visit) [][]visit {
	var all [][]visit
	for _, v := range seen {
		if v.hook == "build" {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], v)
	}
	return all
}
