package providertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/openenv-go/openenv"
)

// episode plays one, and its server is gone after Close.
func (s *suite) episode() {
	p := s.make(s.cfg.New)
	endpoint := s.start(p)
	s.stop(p)
	if !refused(s.limited(), endpoint) {
		s.Errorf("%v answers after Stop", endpoint.URLs)
	}
	if err := play(s.limited(), s.make(s.cfg.New)); err != nil {
		s.Error(err)
	}
}

// again starts a provider that was stopped, as Connect does after Close.
func (s *suite) again() {
	p := s.make(s.cfg.New)
	for range 2 {
		if err := play(s.limited(), p); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *suite) stopTwice() {
	p := s.make(s.cfg.New)
	s.start(p)
	s.stop(p)
	s.stop(p)
}

func (s *suite) stopBeforeStart() {
	s.stop(s.make(s.cfg.New))
}

func (s *suite) stopBeforeReady() {
	p := s.make(s.cfg.New)
	if _, err := p.Start(s.limited()); err != nil {
		s.Fatalf("Start: %v", err)
	}
	s.stop(p)
}

// startTwice must not lose the first server.
func (s *suite) startTwice() {
	p := s.make(s.cfg.New)
	endpoint := s.start(p)
	if _, err := p.Start(s.limited()); err == nil {
		s.Error("a provider that is started was started again")
	}
	if refused(s.limited(), endpoint) {
		s.Error("the second Start ended the first server")
	}
}

var errLeft = errors.New("the caller has left")

func (s *suite) cancelledStart() {
	p := s.make(s.cfg.New)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errLeft)
	_, err := p.Start(ctx)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, errLeft) {
		s.Errorf("Start with a cancelled context: %v, want its error or cause", err)
	}
	s.stop(p)
}

func (s *suite) cancelledWait() {
	p := s.make(s.cfg.NeverReady)
	if _, err := p.Start(s.limited()); err != nil {
		s.Fatalf("Start: %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	timer := time.AfterFunc(50*time.Millisecond, func() { cancel(errLeft) })
	defer timer.Stop()
	begin := time.Now()
	err := p.WaitReady(ctx)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, errLeft) {
		s.Errorf("WaitReady with a cancelled context: %v, want its error or cause", err)
	}
	if passed := time.Since(begin); passed > noticed {
		s.Errorf("WaitReady returned %v after its context had ended", passed)
	}
	s.stop(p)
}

// failedStart has undone what it did, and Stop is called all the same.
func (s *suite) failedStart() {
	p := s.make(s.cfg.BadStart)
	_, err := p.Start(s.limited())
	if err == nil {
		s.Fatal("Start has not failed")
	}
	s.says(err, s.cfg.BadStartSays)
	s.stop(p)
	s.stop(p)
}

// dies reports the end of the server at once and with its last words.
func (s *suite) dies() {
	p := s.make(s.cfg.Dies)
	begin := time.Now()
	_, err := p.Start(s.limited())
	if err == nil {
		begin = time.Now()
		err = p.WaitReady(s.limited())
	}
	if err == nil {
		s.Fatal("a server that has ended is ready")
	}
	if passed := time.Since(begin); passed > noticed {
		s.Errorf("reported after %v", passed)
	}
	s.says(err, s.cfg.DiesSays)
	s.stop(p)

	// Through a client, nothing is left without anybody's further doing.
	if err := play(s.limited(), s.make(s.cfg.Dies)); err == nil {
		s.Error("an episode was played on a server that has ended")
	} else {
		s.says(err, s.cfg.DiesSays)
	}
}

// neverReady reports the last words of a server that runs.
func (s *suite) neverReady() {
	err := play(s.limited(), s.make(s.cfg.NeverReady))
	if err == nil {
		s.Fatal("a server that is not ready was used")
	}
	s.says(err, s.cfg.NeverReadySays)
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("%v does not match context.DeadlineExceeded", err)
	}
}

// failedStop keeps the handle: the client says so, and its next Close ends the job.
func (s *suite) failedStop() {
	p := s.make(s.cfg.StopFails)
	s.start(p)
	if err := p.Stop(s.limited()); err == nil {
		s.Fatal("Stop has not failed")
	}
	s.stop(p)

	env, err := openenv.FromProvider(s.limited(), openenv.Generic, s.make(s.cfg.StopFails))
	if err != nil {
		s.Fatal(err)
	}
	if err := env.Close(); !errors.Is(err, openenv.ErrCleanupPending) {
		s.Errorf("Close: %v, want ErrCleanupPending", err)
	}
	if err := env.Close(); err != nil {
		s.Errorf("second Close: %v", err)
	}
}

// parallel plays many episodes on as many servers at once.
func (s *suite) parallel() {
	var all sync.WaitGroup
	ctx := s.limited()
	for i := range s.cfg.Parallel {
		p := s.make(s.cfg.New)
		all.Go(func() {
			if err := play(ctx, p); err != nil {
				s.Errorf("provider %d: %v", i, err)
			}
		})
	}
	all.Wait()
}
