package rollout_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/rollout"
	"github.com/openenv-go/openenv/rollout/policy"
	"github.com/openenv-go/openenv/rollout/record"
)

// Many episodes on the published Python server, which is killed on the way and started
// again: all of them are on file, each whole and its own, as if nothing had happened.
func TestThousandEpisodesOverAKill(t *testing.T) {
	leak.Check(t)
	cfg := rollout.Config{Episodes: 1000, Sessions: 64, Seed: 11, Limits: record.Limits{Steps: 3}, Out: out(t), Patience: 3 * time.Minute}
	peer := peerproc.Start(t, "--env", "echo", "--max-sessions", "64")
	address, err := url.Parse(peer.URL())
	if err != nil {
		t.Fatal(err)
	}
	run, err := rollout.Run(t.Context(), rollout.Raw, rollout.URLs(peer.URL()), messages(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var restarted *peerproc.Peer
	n := 0
	for e, err := range run.Episodes() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 300 {
			peer.Kill()
			restarted = peerproc.Start(t, "--env", "echo", "--max-sessions", "64", "--port", address.Port())
		}
		checkEcho(t, e)
	}
	summary, err := run.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if summary.Returns.Count != 1000 {
		t.Errorf("summary %+v", summary)
	}
	file := load(t, cfg.Out)
	if len(file.Episodes) != 1000 {
		t.Errorf("%d episodes on file", len(file.Episodes))
	}
	again := 0
	for i, e := range file.Episodes {
		last := e.Attempts[len(e.Attempts)-1]
		if e.Index != i || !e.Ending.Counts() || last.Ending != e.Ending || last.Number != len(e.Attempts) {
			t.Errorf("episode %d: %s, attempts %+v", e.Index, e.Ending, e.Attempts)
		}
		again += len(e.Attempts) - 1
	}
	if again != summary.LostAttempts {
		t.Errorf("%d lost attempts on file, %d in the summary", again, summary.LostAttempts)
	}

	undisturbed := cfg
	undisturbed.Out = out(t)
	play(t, rollout.URLs(restarted.URL()), messages(), undisturbed)
	compare(t, apartFromAttempts(t, cfg.Out), apartFromAttempts(t, undisturbed.Out))
}

// checkEcho fails when an episode has an answer to what it has not said.
func checkEcho(t *testing.T, e *record.Episode) {
	t.Helper()
	for i := range e.Exchanges {
		x := &e.Exchanges[i]
		if x.Op != "step" {
			continue
		}
		res, err := x.Result()
		if err != nil {
			t.Fatal(err)
		}
		said, heard := field(t, x.Data, "message"), field(t, res.Observation, "echoed")
		if said != heard {
			t.Errorf("episode %d, step %d: said %q, heard %q", e.Index, i, said, heard)
		}
	}
}

// runnerVariable makes the test binary a program that plays a run: its value is the
// server, then the file.
const runnerVariable = "ROLLOUT_TEST_RUNNER"

func TestMain(m *testing.M) {
	target, path, asked := strings.Cut(os.Getenv(runnerVariable), " ")
	if !asked {
		os.Exit(m.Run())
	}
	if err := playToEnd(target, path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func playToEnd(target, path string) error {
	cfg := killedRun(path)
	cfg.Resume = true
	run, err := rollout.Run(context.Background(), rollout.Raw, rollout.URLs(target), policy.Random(), cfg)
	if err != nil {
		return err
	}
	for _, err := range run.Episodes() {
		if err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // it is to be killed before it has finished
	}
	_, err = run.Wait()
	return err
}

func killedRun(path string) rollout.Config {
	return rollout.Config{Episodes: 250, Sessions: 8, Seed: 2, Limits: record.Limits{Steps: 10}, Out: path}
}

// A runner that is killed leaves whole lines. Who goes on plays what is missing, and
// the file is as if nothing had happened.
func TestResumeAfterAKilledRunner(t *testing.T) {
	leak.Check(t)
	target := fleetMember(t, 8)
	path := out(t)
	for kills := range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), runnerVariable+"="+target.url()+" "+path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			info, err := os.Stat(path)
			return err == nil && info.Size() > int64(20_000*(kills+1))
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the runner had finished before it was killed")
		}
	}
	cfg := killedRun(path)
	cfg.Resume = true
	run, err := rollout.Run(t.Context(), rollout.Raw, rollout.URLs(target.url()), policy.Random(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(); err != nil {
		t.Fatal(err)
	}
	if run.Skipped() == 0 || run.Skipped() == cfg.Episodes {
		t.Errorf("%d episodes were on file", run.Skipped())
	}
	undisturbed := killedRun(out(t))
	play(t, rollout.URLs(target.url()), policy.Random(), undisturbed)
	compare(t, apartFromAttempts(t, path), apartFromAttempts(t, undisturbed.Out))
}

// waitFor looks until what is waited for is there.
func waitFor(t *testing.T, there func() bool) {
	t.Helper()
	limit := time.Now().Add(30 * time.Second)
	for !there() {
		if time.Now().After(limit) {
			t.Fatal("waited too long")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// member is a server that dies and comes back at its address.
type member struct {
	t       *testing.T
	address string
	make    func() *envserver.Server

	mu   sync.Mutex
	srv  *envserver.Server
	http *http.Server
	done chan struct{}
	most int // sessions at once
}

func fleetMember(t *testing.T, sessions int) *member {
	t.Helper()
	m := &member{t: t, address: "127.0.0.1:0", make: func() *envserver.Server { return server(t, "gridworld", sessions) }}
	m.start()
	t.Cleanup(m.die)
	return m
}

func (m *member) url() string { return "http://" + m.address }

// start listens at the address that it had before.
func (m *member) start() {
	m.t.Helper()
	l, err := net.Listen("tcp", m.address)
	if err != nil {
		m.t.Fatal(err)
	}
	m.address = l.Addr().String()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.srv = m.make()
	m.http = &http.Server{Handler: m.srv, ReadHeaderTimeout: time.Minute}
	m.done = make(chan struct{})
	go func(h *http.Server, done chan struct{}) { defer close(done); _ = h.Serve(l) }(m.http, m.done)
}

// die drops all connections, as the death of a process does.
func (m *member) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.http == nil {
		return
	}
	_ = m.http.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody is waited for
	_ = m.srv.Shutdown(ctx)
	_ = m.srv.Shutdown(context.Background())
	<-m.done
	m.http = nil
}

func (m *member) active() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.srv.ActiveSessions()
	m.most = max(m.most, n)
	return n
}

// Three servers with room for 1, 3 and 6 sessions: all of it is used and learned from
// refusals alone; one dies and gets its sessions again when it is back.
func TestServersOfUnequalCapacity(t *testing.T) {
	leak.Check(t)
	var members []*member
	var urls []string
	for _, n := range []int{1, 3, 6} {
		m := fleetMember(t, n)
		members, urls = append(members, m), append(urls, m.url())
	}
	cfg := rollout.Config{Episodes: 600, Sessions: 12, Seed: 4, Limits: record.Limits{Steps: 3}, Out: out(t), Fragile: true} // nobody is to wait for the one that dies
	run, err := rollout.Run(t.Context(), rollout.Raw, rollout.URLs(urls...), policy.Random(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	const died = 2
	phase := 0
	for _, err := range run.Episodes() {
		if err != nil {
			t.Fatal(err)
		}
		if phase < 3 {
			time.Sleep(8 * time.Millisecond) // episodes are played as they are taken: the servers need some time
		}
		full := 0
		for i, m := range members {
			if phase != 1 || i != died {
				full += m.active()
			}
		}
		switch {
		case phase == 0 && full == 10:
			members[died].die()
			phase = 1
		case phase == 1 && full == 4:
			members[died].start()
			phase = 2
		case phase == 2 && full == 10:
			phase = 3
		}
	}
	summary, err := run.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if phase != 3 {
		t.Errorf("the run ended in phase %d: all sessions, without the dead server's, with them again", phase)
	}
	if summary.Returns.Count != cfg.Episodes {
		t.Errorf("summary %+v", summary)
	}
	if len(load(t, cfg.Out).Episodes) != cfg.Episodes {
		t.Error("episodes are missing on file")
	}
	for i, m := range members {
		if room := []int{1, 3, 6}[i]; m.most > room {
			t.Errorf("server %d had %d sessions, more than %d", i, m.most, room)
		}
	}
}

// A server that comes back with another environment gets no sessions.
func TestServerComesBackAsAnother(t *testing.T) {
	leak.Check(t)
	stays, changes := fleetMember(t, 2), fleetMember(t, 2)
	cfg := rollout.Config{Episodes: 300, Sessions: 4, Seed: 4, Limits: record.Limits{Steps: 3}, Fragile: true} // nobody is to wait for the one that dies
	run, err := rollout.Run(t.Context(), rollout.Raw, rollout.URLs(stays.url(), changes.url()), policy.Random(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	n, back := 0, false
	for _, err := range run.Episodes() {
		if err != nil {
			t.Fatal(err)
		}
		n++
		switch {
		case n == 20:
			changes.die()
		case n > 20 && !back && run.Progress().Sessions == 2:
			changes.make = func() *envserver.Server { return server(t, "blackjack", 2) }
			changes.start()
			back = true
		}
		if n >= 20 {
			time.Sleep(3 * time.Millisecond) // the probes need some time
		}
		if back && changes.active() > 0 {
			t.Error("it has sessions")
		}
	}
	if summary, err := run.Wait(); err != nil || !back || summary.Returns.Count != cfg.Episodes {
		t.Errorf("back: %v, %+v, %v", back, summary, err)
	}
}

// mortal is a provider whose server can be killed.
type mortal struct {
	*member
	starts int
}

func (p *mortal) Start(context.Context) (provider.Endpoint, error) {
	p.starts++
	p.start()
	return provider.Endpoint{URLs: []string{p.url()}}, nil
}
func (*mortal) WaitReady(context.Context) error { return nil }
func (p *mortal) Stop(context.Context) error    { p.die(); return nil }

// A server that the run has started and that dies is started again.
func TestProviderIsStartedAgain(t *testing.T) {
	leak.Check(t)
	p := &mortal{member: &member{t: t, address: "127.0.0.1:0", make: func() *envserver.Server { return server(t, "gridworld", 4) }}}
	cfg := rollout.Config{Episodes: 200, Sessions: 4, Seed: 4, Limits: record.Limits{Steps: 10}}
	run, err := rollout.Run(t.Context(), rollout.Raw, rollout.Providers(p), policy.Random(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range run.Episodes() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 50 {
			p.die()
		}
	}
	summary, err := run.Wait()
	if err != nil || summary.Returns.Count != cfg.Episodes || summary.LostAttempts == 0 || p.starts != 2 {
		t.Errorf("%d starts, %+v, %v", p.starts, summary, err)
	}
	if p.http != nil {
		t.Error("the server still runs")
	}
}
