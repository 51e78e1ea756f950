package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/openenv-go/openenv/provider"
	"github.com/openenv-go/openenv/provider/docker"
)

// environment is what run keeps.
type environment struct {
	kind, shown string
	provider    provider.Provider
	name        func() string // of the container or the service; nil without one
	url         string        // once it was started
	pulled      *pulled

	// follow reads the log until ctx or the log ends; nil where the provider does.
	follow func(ctx context.Context, line func(string))
	// suspect returns when the environment may have ended, or ctx.
	suspect func(ctx context.Context, e *environment)
}

const (
	watchPause   = 250 * time.Millisecond
	confirmLimit = 5 * time.Second
)

// watch returns how the environment ended, or nil when ctx did. A provider tells in
// WaitReady whether what it started has ended; asking it all the time would fill the
// environment's log with health checks.
func (e *environment) watch(ctx context.Context) error {
	for {
		e.suspect(ctx, e)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to end: no failure
		}
		if err := e.confirm(ctx); err != nil {
			return err
		}
		sleep(ctx, watchPause)
	}
}

// confirm returns how the environment ended. One that is merely busy has not.
func (e *environment) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	if e.kind == bySwarm { // it starts another replica for one that ends
		return serviceError(ctx, e.name())
	}
	err := e.provider.WaitReady(ctx)
	if isA[*provider.ExitError](err) || errors.Is(err, provider.ErrGone) {
		return err
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// refusing returns when the server takes no connections. Those that it takes are
// closed without a word, which servers do not log.
func refusing(ctx context.Context, e *environment) {
	u, err := url.Parse(e.url)
	if err != nil {
		return
	}
	dialer := net.Dialer{Timeout: confirmLimit}
	for ctx.Err() == nil {
		conn, err := dialer.DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return
		}
		_ = conn.Close()
		sleep(ctx, watchPause)
	}
}

// containerEnded returns when the container does not run.
func containerEnded(ctx context.Context, e *environment) {
	withEngine(func(c *client.Client) {
		wait := c.ContainerWait(ctx, e.name(), client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case <-wait.Result:
		case <-wait.Error: //nolint:errcheck // whatever it is, the provider is asked next
		case <-ctx.Done():
		}
	})
}

// serviceGone returns when the service was removed.
func serviceGone(ctx context.Context, e *environment) {
	for ctx.Err() == nil && serviceError(ctx, e.name()) == nil {
		sleep(ctx, 4*watchPause)
	}
}

// serviceError is provider.ErrGone if the swarm knows no such service.
func serviceError(ctx context.Context, name string) (gone error) {
	withEngine(func(c *client.Client) {
		if _, err := c.ServiceInspect(ctx, name, client.ServiceInspectOptions{}); errdefs.IsNotFound(err) {
			gone = fmt.Errorf("service %s: %w", name, provider.ErrGone)
		}
	})
	return gone
}

func withEngine(do func(*client.Client)) {
	c, err := client.New(client.FromEnv)
	if err != nil {
		return // the provider has made one
	}
	defer func() { _ = c.Close() }()
	do(c)
}

func (e *environment) followContainer(ctx context.Context, line func(string)) {
	withEngine(func(c *client.Client) {
		logs, err := c.ContainerLogs(ctx, e.name(), client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
		copyLog(logs, err, line)
	})
}

func (e *environment) followService(ctx context.Context, line func(string)) {
	withEngine(func(c *client.Client) {
		logs, err := c.ServiceLogs(ctx, e.name(), client.ServiceLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
		copyLog(logs, err, line)
	})
}

// copyLog hands a log on until its end. Without it the environment runs all the same.
func copyLog(logs io.ReadCloser, err error, line func(string)) {
	if err != nil {
		line("oenv: its log cannot be read: " + oneLine(err.Error()))
		return
	}
	defer func() { _ = logs.Close() }()
	out, errs := &lineCutter{emit: line}, &lineCutter{emit: line}
	_, _ = stdcopy.StdCopy(out, errs, logs) // its end is that of the container
	out.flush()
	errs.flush()
}

// lineCutter cuts what is written to it into lines.
type lineCutter struct {
	emit func(string)
	rest []byte
}

const longestLine = 64 << 10

func (l *lineCutter) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found && len(l.rest) <= longestLine {
			return len(b), nil
		}
		l.emit(string(line))
		l.rest = rest
	}
}

func (l *lineCutter) flush() {
	if len(l.rest) > 0 {
		l.emit(string(l.rest))
	}
	l.rest = nil
}

// pulled shows a pull's progress.
type pulled struct {
	streams *Streams
	image   string

	mu     sync.Mutex
	layers map[string]docker.Progress // that are being downloaded
	status string
	stop   func() // nil while nothing is shown
}

// show takes a line of the engine's.
func (p *pulled) show(line docker.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.layers == nil {
		p.layers = map[string]docker.Progress{}
	}
	if line.Total > 0 && line.Status == "Downloading" {
		p.layers[line.Layer] = line
	}
	p.status = line.Status
	if p.stop == nil {
		p.stop = p.streams.progress(p.text)
	}
}

func (p *pulled) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var current, total int64
	for _, l := range p.layers {
		current, total = current+l.Current, total+l.Total
	}
	text := "pulling " + clip(p.image) + ": "
	if total > 0 {
		return text + fmt.Sprintf("%.1f of %.1f MB", float64(current)/1e6, float64(total)/1e6)
	}
	return text + clip(oneLine(p.status))
}

// finish wipes the line.
func (p *pulled) finish() {
	p.mu.Lock()
	stop := p.stop
	p.stop = nil
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}
