package openenv

import (
	"context"
	"errors"
	"fmt"
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
	if err := child.connect(ctx); err != nil {
		return nil, errors.Join(err, child.close())
	}
	return child, nil
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

// close ends the children in parallel, then the socket, then the provider.
func (c *core) close() error {
	c.mu.Lock()
	c.closed = true
	children := make([]*core, 0, len(c.children))
	for child := range c.children {
		children = append(children, child)
	}
	c.mu.Unlock()

	c.closing <- struct{}{}
	defer func() { <-c.closing }()
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
		errs[len(children)] = errors.New("session: a deferred call did not end with its context")
	}
	c.host.release(c)
	if c.parent != nil {
		c.parent.disown(c)
	} else {
		errs[len(children)+1] = c.host.stop()
	}
	return errors.Join(errs...)
}
