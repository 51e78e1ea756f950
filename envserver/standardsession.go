package envserver

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// standardIdle is how long a session of the standard protocol may rest on a server
// without [WithIdleTimeout]. Its clients come and go without a word, and each holds a
// slot; an open stream of events is use.
const standardIdle = 30 * time.Minute

// standardSession is a session of the standard protocol and the one of the server that it
// stands for.
type standardSession struct {
	h    *hosted
	over chan struct{} // closed when the slot is free again

	mu      sync.Mutex
	posts   int // requests in progress
	streams int // of events, that are open
	used    time.Time
	quiet   chan struct{} // capacity 1: the last request has ended
}

// drop ends a session that the SDK does not have.
func (m *standard) drop(st *standardSession, cause error) {
	m.mu.Lock()
	delete(m.sessions, st.h.id)
	m.mu.Unlock()
	st.h.end(cause)
	close(st.over)
}

// watch ends a session with whatever ends first: the SDK's session, the environment,
// the server, or the client's interest.
func (m *standard) watch(l *life, st *standardSession, session *sdk.ServerSession) {
	ended := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() { defer close(ended); _ = session.Wait() }) // why it ended is no news
	cause := st.outlast(l, ended, m.idleLimit())
	st.h.cancel(cause)  // the SDK waits for calls
	_ = session.Close() // a session that has ended says so
	waiter.Wait()
	m.drop(st, cause)
}

func (m *standard) idleLimit() time.Duration {
	if limit := m.srv.set.idleTimeout; limit > 0 {
		return limit
	}
	return standardIdle
}

func (st *standardSession) outlast(l *life, ended <-chan struct{}, limit time.Duration) (cause error) {
	idle := time.NewTimer(limit)
	defer idle.Stop()
	for {
		select {
		case <-ended:
			return errSessionEnded
		case <-st.h.ctx.Done():
			return context.Cause(st.h.ctx)
		case <-l.draining.Done():
			st.finishCalls(l)
			return ErrServerClosed
		case <-idle.C:
			left := st.left(limit)
			if left <= 0 {
				return errIdle
			}
			idle.Reset(left)
		}
	}
}

// finishCalls waits for the requests in progress, which a server that shuts down lets
// finish until it cancels them.
func (st *standardSession) finishCalls(l *life) {
	for st.busy() {
		select {
		case <-st.quiet:
		case <-l.base.Done():
			return
		}
	}
}

func (st *standardSession) busy() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.posts > 0
}

// note counts requests and streams in and out.
func (st *standardSession) note(posts, streams int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.posts += posts
	st.streams += streams
	st.used = time.Now()
	if st.posts == 0 {
		select {
		case st.quiet <- struct{}{}:
		default:
		}
	}
}

// left is how long the session may rest from here on.
func (st *standardSession) left(limit time.Duration) time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.posts+st.streams > 0 {
		return limit
	}
	return limit - time.Since(st.used)
}
