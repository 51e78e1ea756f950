package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// group are contenders that are measured against each other, in interleaved rounds.
type group struct {
	sessions, size int
	faces          bool // futures and raw maps, too
}

// open connects all contenders of a group.
func (b *bench) open(ctx context.Context, g group) (cs []*contender, err error) {
	defer func() {
		if err != nil {
			closeAll(cs)
			cs = nil
		}
	}()
	k := func(client, server string) key { return key{client, server, g.sessions, g.size} }
	type opening struct {
		on   bool
		open func() (*contender, error)
	}
	python := b.cfg.python != ""
	one := g.sessions == 1
	openings := []opening{
		{one, func() (*contender, error) { return newCodec(k(codec, "")) }},
		{true, func() (*contender, error) { return newBareTCP(k(bareTCP, floorTwo), b.child.TCP) }},
		{one, func() (*contender, error) { return newBareWS(ctx, k(bareWS, floorOne), b.local.WS) }},
		{true, func() (*contender, error) { return newGo(k(goTyped, embedded), b.local.Env, blocking) }},
		{g.faces, func() (*contender, error) { return newGo(k(goAwait, embedded), b.local.Env, await) }},
		{g.faces, func() (*contender, error) { return newGo(k(goStart, embedded), b.local.Env, start) }},
		{g.faces, func() (*contender, error) { return newRawMap(k(goMap, embedded), b.local.Env) }},
		{true, func() (*contender, error) { return newBareWS(ctx, k(bareWS, floorTwo), b.child.WS) }},
		{true, func() (*contender, error) { return newGo(k(goTyped, goServer), b.child.Env, blocking) }},
		{true, func() (*contender, error) { return newRawJSON(k(goJSON, goServer), b.child.Env) }},
		{one, func() (*contender, error) { return newResumed(k(goResume, goServer), b.child.Env) }},
		{python, func() (*contender, error) { return newGo(k(goTyped, pyServer), b.peer, blocking) }},
		{python && one, func() (*contender, error) { return newResumed(k(goResume, pyServer), b.peer) }},
		{python && one, func() (*contender, error) { return newGo(k(goTyped, pyCoroutines), b.peerAsync, blocking) }},
	}
	for _, client := range []string{pyAsync, pySync} {
		for _, server := range []struct{ name, url string }{{goServer, b.child.Env}, {pyServer, b.peer}, {pyCoroutines, b.peerAsync}} {
			openings = append(openings, opening{python, func() (*contender, error) {
				return b.python.contender(k(client, server.name), server.url)
			}})
		}
	}
	for _, o := range openings {
		if !o.on {
			continue
		}
		c, err := o.open()
		if err != nil {
			return cs, err
		}
		cs = append(cs, c)
	}
	return cs, nil
}

// measure runs the rounds of a group, all contenders one after the other in each.
func (b *bench) measure(ctx context.Context, g group) error {
	cs, err := b.open(ctx, g)
	if err != nil {
		return fmt.Errorf("%d sessions, %s: %w", g.sessions, sizeText(g.size), err)
	}
	defer closeAll(cs)
	for round := range b.cfg.rounds + 1 {
		progressf("%d sessions, %s: round %d of %d", g.sessions, sizeText(g.size), round, b.cfg.rounds)
		for _, c := range cs {
			steps, took, err := c.round(ctx, b.cfg.round)
			if err != nil {
				return fmt.Errorf("%v: %w", c.key, err)
			}
			if round > 0 { // the first one warms up
				c.us = append(c.us, took.Seconds()*1e6/float64(steps))
			}
		}
	}
	b.measured = append(b.measured, cs...)
	return nil
}

func (b *bench) find(k key) *contender {
	i := slices.IndexFunc(b.measured, func(c *contender) bool { return c.key == k })
	if i < 0 {
		return nil
	}
	return b.measured[i]
}

// startAll starts every server that the matrix needs.
func (b *bench) startAll(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range slices.Backward(stops) {
			s()
		}
	}
	local, err := startServers()
	if err != nil {
		return nil, err
	}
	stops = append(stops, local.close)
	b.local = local.addresses
	at, child, err := startChild(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	stops = append(stops, child.stop)
	b.child = at
	if b.cfg.python == "" {
		return stop, nil
	}
	if b.python, err = startPythonClients(ctx, b.cfg.python); err != nil {
		stop()
		return nil, err
	}
	stops = append(stops, b.python.stop)
	var errs []error
	for env, url := range map[string]*string{"echo": &b.peer, "echo-async": &b.peerAsync} {
		p, err := startPeer(ctx, b.cfg.python, env, mostSessions)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*url = p.url
		stops = append(stops, p.stop)
	}
	if err := errors.Join(errs...); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}
