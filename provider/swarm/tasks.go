package swarm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/internal/netx"
	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/internal/engine"
)

const (
	// pollPause is between two looks at the tasks.
	pollPause = 100 * time.Millisecond
	// lateLimit is how long Start waits for the others when one replica runs: the
	// client learns of late ones by itself.
	lateLimit = 10 * time.Second
	// answerLimit bounds the question to a replica that has not answered yet.
	answerLimit = 2 * time.Second
)

// tasks lists the service's tasks, those that have ended included.
func (p *Provider) tasks(ctx context.Context, s *service) ([]swarm.Task, error) {
	ours := make(client.Filters).Add("label", labelService+"="+s.name)
	found, err := p.engine.TaskList(ctx, client.TaskListOptions{Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("tasks of service %s: %w", s.name, p.engine.Explain(err))
	}
	return found.Items, nil
}

// running reports whether a task serves, or will: not one that is to be ended.
func running(t swarm.Task) bool {
	return t.DesiredState == swarm.TaskStateRunning && t.Status.State == swarm.TaskStateRunning
}

// addresses are those of the replicas that run, in the order of their slots.
func (p *Provider) addresses(ctx context.Context, s *service, tasks []swarm.Task) ([]string, error) {
	if p.set.ingress {
		return p.ingressAddress(ctx, s, tasks)
	}
	tasks = slices.Clone(tasks)
	slices.SortFunc(tasks, func(a, b swarm.Task) int { return a.Slot - b.Slot })
	hosts := map[string]string{}
	var urls []string
	for _, t := range tasks {
		if !running(t) {
			continue
		}
		for _, port := range t.Status.PortStatus.Ports {
			if port.PublishedPort == 0 {
				continue
			}
			host, known := hosts[t.NodeID]
			if !known {
				var err error
				if host, err = p.nodeAddress(ctx, t.NodeID); err != nil {
					return nil, err
				}
				hosts[t.NodeID] = host
			}
			urls = append(urls, "http://"+net.JoinHostPort(host, strconv.Itoa(int(port.PublishedPort))))
			break
		}
	}
	return urls, nil
}

// nodeAddress is where a node's published ports are. The node that we speak to is
// reached as we speak to it.
func (p *Provider) nodeAddress(ctx context.Context, id string) (string, error) {
	here, err := p.swarm(ctx)
	if err != nil {
		return "", err
	}
	if here.NodeID == id {
		return p.here(), nil
	}
	node, err := p.engine.NodeInspect(ctx, id, client.NodeInspectOptions{})
	if err != nil {
		return "", fmt.Errorf("node %s: %w", id, p.engine.Explain(err))
	}
	host := node.Node.Status.Addr
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		// The leader does not know its own.
		if m := node.Node.ManagerStatus; m != nil {
			if host, _, err = net.SplitHostPort(m.Addr); err == nil {
				return host, nil
			}
		}
		return "", fmt.Errorf("node %s has no address", id)
	}
	return host, nil
}

func (p *Provider) here() string {
	if host := p.engine.RemoteHost(); host != "" {
		return host
	}
	return "127.0.0.1"
}

// ingressAddress is the balancer's, on the node that we speak to, once a replica runs.
func (p *Provider) ingressAddress(ctx context.Context, s *service, tasks []swarm.Task) ([]string, error) {
	if !slices.ContainsFunc(tasks, running) {
		return nil, nil
	}
	found, err := p.engine.ServiceInspect(ctx, s.name, client.ServiceInspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", s.name, p.engine.Explain(err))
	}
	for _, port := range found.Service.Endpoint.Ports {
		if port.PublishedPort != 0 {
			return []string{"http://" + net.JoinHostPort(p.here(), strconv.Itoa(int(port.PublishedPort)))}, nil
		}
	}
	return nil, nil
}

// awaitTasks waits until all replicas run, or one does and the others are late.
func (p *Provider) awaitTasks(ctx context.Context, s *service) error {
	ctx, cancel := p.limited(ctx)
	defer cancel()
	var first time.Time
	var trouble string
	for {
		tasks, err := p.tasks(ctx, s)
		if err == nil {
			trouble = troubles(tasks)
			err = p.failed(ctx, s, tasks)
		}
		var urls []string
		if err == nil {
			urls, err = p.addresses(ctx, s, tasks)
		}
		if ctx.Err() != nil {
			return p.notReady(ctx, s, fmt.Errorf("no replica runs: %w%s", context.Cause(ctx), trouble))
		}
		if err != nil {
			return fmt.Errorf("swarm provider: %w", err)
		}
		if len(urls) > 0 && first.IsZero() {
			first = time.Now()
		}
		if count(tasks) >= s.replicas && len(urls) > 0 || len(urls) > 0 && time.Since(first) > lateLimit {
			s.urls = urls
			return nil
		}
		pause(ctx)
	}
}

func count(tasks []swarm.Task) (n int) {
	for _, t := range tasks {
		if running(t) {
			n++
		}
	}
	return n
}

func (p *Provider) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.set.Ready == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, p.set.Ready, engine.LimitError(p.set.Ready))
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pollPause):
	}
}

// ended are the states of tasks that ended by themselves.
var ended = []swarm.TaskState{swarm.TaskStateFailed, swarm.TaskStateRejected, swarm.TaskStateComplete}

// failed reports a service of which every replica has failed once. The swarm would go
// on trying for ever, which is right for one that has run before, not for one that
// never did.
func (p *Provider) failed(ctx context.Context, s *service, tasks []swarm.Task) error {
	slots := map[int]bool{}
	var last swarm.Task
	for _, t := range tasks {
		if !slices.Contains(ended, t.Status.State) {
			continue
		}
		slots[t.Slot] = true
		if t.Status.Timestamp.After(last.Status.Timestamp) {
			last = t
		}
	}
	if len(slots) < s.replicas {
		return nil
	}
	// One that could not even be started has a code too, and the reason in words.
	exited := last.Status.Err == "" || strings.HasPrefix(last.Status.Err, "task: non-zero exit")
	if c := last.Status.ContainerStatus; c != nil && exited {
		return &provider.ExitError{Name: p.title(s), Code: c.ExitCode, Tail: p.engine.ServiceTail(ctx, s.name)}
	}
	return fmt.Errorf("%s: %s", p.title(s), last.Status.Err)
}

// troubles is what the swarm says about tasks that do not run.
func troubles(tasks []swarm.Task) string {
	var text string
	for _, t := range tasks {
		if t.Status.Err != "" && !running(t) {
			text = fmt.Sprintf(" (%s: %s)", t.Status.State, t.Status.Err)
		}
	}
	return text
}

func (p *Provider) title(s *service) string {
	return fmt.Sprintf("service %s of %s", s.name, p.set.Image.Ref)
}

func (p *Provider) notReady(ctx context.Context, s *service, err error) error {
	return &provider.NotReadyError{Name: p.title(s), Err: err, Tail: p.engine.ServiceTail(ctx, s.name)}
}

// WaitReady polls the replicas until one is healthy. A service whose replicas end is
// reported at once as a [*provider.ExitError], one that is not ready in time as a
// [*provider.NotReadyError]; both have the end of its log.
func (p *Provider) WaitReady(ctx context.Context) error {
	s, err := p.current()
	if err != nil {
		return err
	}
	defer p.engine.Close()
	ctx, cancel := p.limited(ctx)
	defer cancel()
	last := errors.New("none runs")
	for {
		tasks, err := p.tasks(ctx, s)
		if err == nil {
			err = p.failed(ctx, s, tasks)
		}
		if exit, ok := errors.AsType[*provider.ExitError](err); ok {
			return exit
		}
		var urls []string
		if err == nil {
			urls, err = p.addresses(ctx, s, tasks)
		}
		if err == nil {
			var serving []string
			if serving, err = p.serving(ctx, s, urls); len(serving) > 0 {
				return nil
			}
		}
		if ctx.Err() != nil {
			return p.notReady(ctx, s, fmt.Errorf("no replica is ready: %w (last: %w)", context.Cause(ctx), last))
		}
		if err != nil {
			last = err
		}
		pause(ctx)
	}
}

// serving are the replicas among urls that are healthy. One that was once is not asked
// again; the error is of one that is not.
func (p *Provider) serving(ctx context.Context, s *service, urls []string) (ready []string, err error) {
	type answer struct {
		url string
		err error
	}
	answers := make(chan answer)
	asked := 0
	for _, url := range urls {
		if p.answered(s, url) {
			ready = append(ready, url)
			continue
		}
		asked++
		go func() { answers <- answer{url, ask(ctx, url)} }()
	}
	for range asked {
		a := <-answers
		if a.err != nil {
			err = a.err
			continue
		}
		p.answeredNow(s, a.url)
		ready = append(ready, a.url)
	}
	slices.SortFunc(ready, func(a, b string) int { return slices.Index(urls, a) - slices.Index(urls, b) })
	return ready, err
}

func ask(ctx context.Context, url string) error {
	base, err := netx.ParseBase(url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %v", answerLimit))
	defer cancel()
	return engine.Healthy(ctx, base)
}

func (p *Provider) answered(s *service, url string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.serving[url]
}

func (p *Provider) answeredNow(s *service, url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.serving[url] = true
}

// Endpoints are the replicas that serve now: after Scale, and after the swarm has put
// another in the place of one that ended.
func (p *Provider) Endpoints(ctx context.Context) (provider.Endpoint, error) {
	s, err := p.current()
	if err != nil {
		return provider.Endpoint{}, err
	}
	defer p.engine.Close()
	tasks, err := p.tasks(ctx, s)
	if err != nil {
		return provider.Endpoint{}, fmt.Errorf("swarm provider: %w", err)
	}
	urls, err := p.addresses(ctx, s, tasks)
	if err != nil {
		return provider.Endpoint{}, fmt.Errorf("swarm provider: %w", err)
	}
	ready, err := p.serving(ctx, s, urls)
	if len(ready) == 0 {
		if err == nil {
			err = errors.New("none runs")
		}
		return provider.Endpoint{}, fmt.Errorf("swarm provider: no replica of service %s is ready: %w", s.name, err)
	}
	return provider.Endpoint{URLs: ready}, nil
}
