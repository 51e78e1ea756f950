package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/openenv-go/openenv/internal/load"
	"github.com/openenv-go/openenv/internal/plot"
)

// The scaling experiment of the Python package's documentation: sessions that all
// begin at once, each of them connect, reset, one step that waits a second, close.
const (
	scaleFirst = 32
	scaleLast  = 16384
	scaleFlat  = 1024 // the cost of a session is compared from here on
	waitSecond = "1s"
	// peerFails is the success below which the experiment goes no further; the
	// documentation's limit for one node is at 96.5 %.
	peerFails = 0.95
	// batchLimit is how long one batch may take.
	batchLimit = 3 * time.Minute
)

// point is one number of sessions, measured several times.
type point struct {
	sessions  int
	success   float64 // the worst run's
	p99, rate []float64
	cpu       []float64 // microseconds a session, both ends
	failed    error
}

func (p *point) take(r *load.Result) {
	if len(p.p99) == 0 || r.SuccessRate < p.success {
		p.success = r.SuccessRate
	}
	p.p99 = append(p.p99, r.Total.P99/1e3)
	p.rate = append(p.rate, r.SessionsPerSecond)
	p.cpu = append(p.cpu, cpuEach(r))
}

// scaleOurs runs one batch on a fresh server, so that memory is that of the batch.
func (b *bench) scaleOurs(ctx context.Context, p *point, more ...string) (*load.Result, error) {
	srv, err := startOenv(ctx, b.cfg.oenv, "wait", 2*p.sessions)
	if err != nil {
		return nil, err
	}
	defer srv.stop()
	args := append([]string{"--sessions", strconv.Itoa(p.sessions), "--steps", "1", "--wait", waitSecond}, more...)
	rs, err := b.runOenvBench(ctx, srv.url, args...)
	if err != nil {
		return nil, err
	}
	p.take(rs[0])
	return rs[0], nil
}

// scalePeer runs one batch of the Python pair.
func (b *bench) scalePeer(ctx context.Context, p *point) (err error) {
	ctx, cancel := context.WithTimeout(ctx, batchLimit)
	defer cancel()
	srv, err := startPeer(ctx, b.cfg.python, "wait", 2*p.sessions)
	if err != nil {
		return err
	}
	defer srv.stop()
	client, err := startPythonClient(ctx, b.cfg.python, "async")
	if err != nil {
		return err
	}
	defer client.stop()
	before := load.CPU(srv.cmd.Process.Pid)
	r, err := askBatch(client, srv.url, p.sessions, load.DefaultDials, "1")
	if err != nil {
		return err
	}
	spent := load.CPU(srv.cmd.Process.Pid) - before
	success := float64(r.Succeeded) / float64(p.sessions)
	if len(p.p99) == 0 || success < p.success {
		p.success = success
	}
	p.p99 = append(p.p99, r.P99)
	p.rate = append(p.rate, float64(r.Succeeded)/r.Seconds)
	p.cpu = append(p.cpu, (r.CPU+spent.Seconds())*1e6/float64(p.sessions))
	return nil
}

func (b *bench) scaleSizes() (sizes []int) {
	if !b.cfg.full {
		return []int{scaleFirst, scaleFlat}
	}
	for n := scaleFirst; n <= scaleLast; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes
}

func (b *bench) scaleRuns() int {
	if b.cfg.full {
		return 5
	}
	return 1
}

// measureScale runs the experiment for both pairs, interleaved, the Python pair up to
// where it fails.
func (b *bench) measureScale(ctx context.Context) error {
	var ours, peers []*point
	peer := b.cfg.python != ""
	for _, n := range b.scaleSizes() {
		o, p := &point{sessions: n}, &point{sessions: n}
		ours = append(ours, o)
		if peer {
			peers = append(peers, p)
		}
		for run := range b.scaleRuns() {
			progressf("%d sessions, run %d of %d", n, run+1, b.scaleRuns())
			if _, err := b.scaleOurs(ctx, o); err != nil {
				return err
			}
			if peer && p.failed == nil {
				p.failed = b.scalePeer(ctx, p)
			}
			if ctx.Err() != nil {
				return errors.Join(context.Cause(ctx), p.failed)
			}
		}
		peer = peer && b.cfg.full && p.failed == nil && p.success >= peerFails
	}
	b.report.Tables = append(b.report.Tables, scaleTable(ours, peers))
	b.report.charts = append(b.report.charts, scaleChart(ours, peers))
	b.judgeScale(ours)
	if !b.cfg.full {
		return nil
	}
	return b.idle(ctx)
}

func scaleTable(ours, peers []*point) Table {
	t := Table{
		Title:   "Scaling experiment: a step that waits 1 s",
		Command: "oenv serve wait, oenv bench URL --sessions N --steps 1 --wait 1s; bench/peer.py --env wait, bench/client.py batch",
		Header:  []string{"pair", "sessions", "success, worst run", "total P99, s", "sessions/s", "CPU a session, µs"},
		Note: "Connect, reset, one step, close; all sessions begin at once and 128 dial at a time. The total counts from the begin of the batch. " +
			"Processor time is that of both ends. The Python pair goes on until less than 95 % succeed.",
	}
	for _, pair := range []struct {
		name   string
		points []*point
	}{{goServer, ours}, {pyServer, peers}} {
		for _, p := range pair.points {
			if len(p.p99) == 0 || p.failed != nil {
				t.add(pair.name, p.sessions, fmt.Sprintf("failed: %v", p.failed), "", "", "")
				continue
			}
			t.add(pair.name, p.sessions, fmt.Sprintf("%.2f %%", 100*p.success), spreadOf(p.p99), spreadOf(p.rate), spreadOf(p.cpu))
		}
	}
	return t
}

func scaleChart(ours, peers []*point) chart {
	lines := plot.Lines{
		Title: "Scaling experiment: a step that waits 1 s",
		X:     plot.Axis{Label: "sessions that begin at once", Log: true},
		Y:     plot.Axis{Label: "total P99, seconds", Log: true},
	}
	for _, pair := range []struct {
		name   string
		points []*point
	}{{goServer, ours}, {pyServer, peers}} {
		s := plot.Series{Name: pair.name}
		for _, p := range pair.points {
			if len(p.p99) > 0 {
				s.Points = append(s.Points, plot.Point{X: float64(p.sessions), Y: spreadOf(p.p99).Median})
			}
		}
		lines.Series = append(lines.Series, s)
	}
	return chart{"scale", lines}
}

// judgeScale adds the ratios of the largest batch, when it was run.
func (b *bench) judgeScale(ours []*point) {
	var first, last *point
	for _, p := range ours {
		switch p.sessions {
		case scaleFlat:
			first = p
		case scaleLast:
			last = p
		}
	}
	if first == nil || last == nil {
		return
	}
	flat := spreadOf(last.cpu).Median / spreadOf(first.cpu).Median
	b.report.Ratios = append(b.report.Ratios,
		atLeast("16,384 sessions, wait 1 s: success of the worst run", one(100*last.success), 100, "%"),
		atMost("16,384 sessions, wait 1 s: total P99", spreadOf(last.p99), 6, "s"),
		atMost("CPU of a session, 16,384 ÷ 1,024 sessions", one(flat), 1.3, "×"))
}
