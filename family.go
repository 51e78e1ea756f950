package openenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/openenv-go/openenv/internal/session"
)

// NewSession opens another session on the same server: a client of the same type
// with the same options, unclaimed by any face. It returns when the server has
// admitted the session; a full server is [ErrCapacity]. The child is closed with its
// parent, or before it by its own Close.
func (c *Client[A, O, S]) NewSession(ctx context.Context) (*Client[A, O, S], error) {
	child, err := c.core.newChild(ctx)
	if err != nil {
		return nil, err
	}
	return newClient(c.spec, child, c), nil
}

func (c *core) newChild(ctx context.Context) (*core, error) {
	child := newCore(c.set, c.host, c)
	if !c.adopt(child) {
		return nil, c.convert("new session", session.ErrClosed)
	}
	err := child.connect(ctx)
	if err == nil {
		return child, nil
	}
	// A caller whose ctx has ended leaves at once. The parent's Close finds the child
	// as long as it is not closed, and waits for this goroutine.
	if ctx.Err() != nil && c.sess.Go(func() { child.discard() }) {
		return nil, err
	}
	return nil, join(err, child.close())
}

// discard closes a child that nobody got to see.
func (c *core) discard() {
	if err := c.close(); err != nil {
		c.set.logger.Warn("closing a session that nobody waited for failed", "err", err)
	}
}

// adopt registers a child before it does anything, so that no close misses it.
func (c *core) adopt(child *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.children[child] = struct{}{}
	return true
}

func (c *core) disown(child *core) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.children, child)
}

// close ends the children in parallel, then the socket, then the provider. Calls
// wait for each other, so that each returns when all is closed.
func (c *core) close() error {
	c.closing <- struct{}{}
	defer func() { <-c.closing }()
	children := c.shutDoor()
	errs := make([]error, len(children)+2)
	var wg sync.WaitGroup
	for i, child := range children {
		wg.Go(func() {
			if err := child.close(); err != nil {
				errs[i] = fmt.Errorf("child session %d: %w", i, err)
			}
		})
	}
	wg.Wait()
	if !c.sess.Close() {
		errs[len(children)] = errors.New("session: code of the user (a deferred call, a header function) did not end with its context")
	}
	c.host.release(c)
	if c.parent != nil {
		c.parent.disown(c)
	} else {
		errs[len(children)+1] = c.host.close()
	}
	return errors.Join(errs...)
}

// shutDoor refuses calls and children from now on, and returns the children there are.
func (c *core) shutDoor() []*core {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return slices.Collect(maps.Keys(c.children))
}
