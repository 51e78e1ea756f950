package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Params are one simulated cluster and what it is asked to carry. Time is simulated;
// nothing sleeps.
type Params struct {
	Replicas int
	Capacity int     // sessions of a replica (WithMaxSessions)
	Rate     float64 // sessions that arrive in a second, at random times
	Episode  time.Duration
	Shape    Shape
	Policy   Policy
	Warmup   time.Duration // left out of the result
	Duration time.Duration // after Warmup

	// Drain takes replicas away in the middle of Duration: they get no new sessions, and
	// what still runs after Grace is cut off. 0 drains none.
	Drain int
	Grace time.Duration

	Seed uint64
}

// Shape is how the lengths of episodes are spread around their mean.
type Shape string

const (
	Fixed       Shape = "fixed"
	Exponential Shape = "exponential"
	// Heavy is log-normal: most episodes are short, a few are ten times as long.
	Heavy Shape = "heavy"
)

// Policy is how a session finds its replica. A refused one tries the others in turn.
type Policy string

const (
	// Fewest asks the replica with the fewest sessions, as a client family does that all
	// sessions belong to.
	Fewest Policy = "fewest"
	// Random asks any, as a balancer without knowledge does, or many clients that know
	// nothing of each other.
	Random Policy = "random"
	// Alone asks any and does not try another: a balancer in front of one address.
	Alone Policy = "random, one try"
)

func (p Params) validate() error {
	switch {
	case p.Replicas < 1 || p.Capacity < 1:
		return fmt.Errorf("%d replicas of %d sessions", p.Replicas, p.Capacity)
	case p.Rate <= 0 || p.Episode <= 0 || p.Duration <= 0 || p.Warmup < 0 || p.Grace < 0:
		return fmt.Errorf("rate %v, episode %v, duration %v, warm-up %v, grace %v", p.Rate, p.Episode, p.Duration, p.Warmup, p.Grace)
	case p.Drain < 0 || p.Drain >= p.Replicas:
		return fmt.Errorf("%d of %d replicas cannot be drained", p.Drain, p.Replicas)
	case !slices.Contains([]Shape{Fixed, Exponential, Heavy}, p.Shape):
		return fmt.Errorf("shape %q is none of fixed, exponential, heavy", p.Shape)
	case !slices.Contains([]Policy{Fewest, Random, Alone}, p.Policy):
		return fmt.Errorf("policy %q is none of %q, %q, %q", p.Policy, Fewest, Random, Alone)
	}
	return nil
}

// Result is what happened after the warm-up.
type Result struct {
	Arrived, Refused int
	Tries            float64       // replicas asked for each session, refused ones included
	Mean             float64       // sessions open, over time
	Peak             int           // of one replica
	Spread           float64       // mean difference between the fullest and the emptiest replica
	Cut              int           // sessions that a drained replica cut off
	Drained          time.Duration // from the drain until the last of its sessions had ended
}

// RefusalRate is the share of sessions that no replica took.
func (r Result) RefusalRate() float64 { return float64(r.Refused) / float64(max(1, r.Arrived)) }

// event is something at a time: an arrival, the end of a session, the begin of the
// drain, or its end.
type event struct {
	at      float64 // seconds
	what    int
	replica int
	life    int // of the replica, so that the end of a session that was cut off is no event
}

const (
	arrival = iota
	departure
	drainBegins
	drainEnds
)

// replica is one server.
type replica struct {
	open     int
	draining bool
	life     int
}

// simulation is a run in progress.
type simulation struct {
	Params
	rng      *rand.Rand
	queue    queue
	replicas []replica
	now      float64
	result   Result
	area     float64 // sessions × seconds
	spread   float64 // difference × seconds
	tries    int
}

// Simulate runs until the time is over, and on until drained replicas are empty.
func Simulate(p Params) (Result, error) {
	if err := p.validate(); err != nil {
		return Result{}, err
	}
	s := &simulation{Params: p, rng: rand.New(rand.NewPCG(p.Seed, 1)), replicas: make([]replica, p.Replicas)}
	end := (p.Warmup + p.Duration).Seconds()
	s.queue.push(event{at: s.rng.ExpFloat64() / p.Rate, what: arrival})
	if p.Drain > 0 {
		begin := p.Warmup.Seconds() + p.Duration.Seconds()/2
		s.queue.push(event{at: begin, what: drainBegins})
		s.queue.push(event{at: begin + p.Grace.Seconds(), what: drainEnds})
	}
	for {
		e := s.queue.pop() // there is always a next arrival
		if e.at > end {
			break
		}
		s.advance(e.at)
		s.handle(e)
	}
	s.advance(end)
	seconds := p.Duration.Seconds()
	s.result.Mean, s.result.Spread = s.area/seconds, s.spread/seconds
	s.result.Tries = float64(s.tries) / float64(max(1, s.result.Arrived))
	return s.result, nil
}

// advance counts what was open until at.
func (s *simulation) advance(at float64) {
	if from := max(s.now, s.Warmup.Seconds()); at > from {
		total, least, most := 0, math.MaxInt, 0
		for _, r := range s.replicas {
			total += r.open
			if !r.draining {
				least, most = min(least, r.open), max(most, r.open)
			}
		}
		s.area += float64(total) * (at - from)
		s.spread += float64(most-least) * (at - from)
	}
	s.now = at
}

func (s *simulation) handle(e event) {
	switch e.what {
	case arrival:
		s.arrive()
		s.queue.push(event{at: s.now + s.rng.ExpFloat64()/s.Rate, what: arrival})
	case departure:
		r := &s.replicas[e.replica]
		if r.life != e.life {
			return
		}
		r.open--
		if r.draining {
			s.emptied(r)
		}
	case drainBegins:
		for i := range s.Drain {
			s.replicas[i].draining = true
			s.emptied(&s.replicas[i])
		}
	case drainEnds:
		for i := range s.Drain {
			r := &s.replicas[i]
			s.result.Cut += r.open
			cut := r.open > 0
			r.open, r.life = 0, r.life+1
			if cut {
				s.emptied(r)
			}
		}
	}
}

// emptied notes how long the drain took when r was the last with a session.
func (s *simulation) emptied(r *replica) {
	if r.open == 0 {
		begin := s.Warmup + s.Duration/2
		s.result.Drained = time.Duration(s.now*float64(time.Second)) - begin
	}
}

func (s *simulation) arrive() {
	counted := s.now >= s.Warmup.Seconds()
	i, tries := s.place()
	if counted {
		s.result.Arrived++
		s.tries += tries
	}
	if i < 0 {
		if counted {
			s.result.Refused++
		}
		return
	}
	r := &s.replicas[i]
	r.open++
	if counted {
		s.result.Peak = max(s.result.Peak, r.open)
	}
	s.queue.push(event{at: s.now + s.length(), what: departure, replica: i, life: r.life})
}

// place finds a replica with room, and how many were asked; -1 is none. Those that are
// drained are known to go, and not asked.
func (s *simulation) place() (found, tries int) {
	first := s.rng.IntN(len(s.replicas)) // ties, and the order of random, begin anywhere
	found = -1
	for n := range s.replicas {
		i := (first + n) % len(s.replicas)
		r := &s.replicas[i]
		if r.draining {
			continue
		}
		tries++
		switch {
		case s.Policy == Fewest:
			if found < 0 || r.open < s.replicas[found].open {
				found = i
			}
		case r.open < s.Capacity:
			return i, tries
		case s.Policy == Alone:
			return -1, tries
		}
	}
	if s.Policy != Fewest || found < 0 {
		return -1, tries
	}
	if s.replicas[found].open < s.Capacity {
		return found, 1
	}
	return -1, tries
}

// length is that of one episode, in seconds.
func (s *simulation) length() float64 {
	mean := s.Episode.Seconds()
	switch s.Shape {
	case Exponential:
		return mean * s.rng.ExpFloat64()
	case Heavy:
		const sigma = 1.2 // the hundredth longest is some eight times the mean
		return mean * math.Exp(sigma*s.rng.NormFloat64()-sigma*sigma/2)
	case Fixed:
	}
	return mean
}
