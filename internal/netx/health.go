package netx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"
)

// Health asks a server once whether it is ready: GET /health must answer 200 with
// {"status":"healthy"}. A page that merely answers 200 is not an environment.
func Health(ctx context.Context, client *http.Client, base *Base, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.HTTP("/health").String(), nil)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, header)
	resp, err := client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			return ue.Err // the text around it repeats the address, secrets included
		}
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	var h struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return errors.New("answer is not the health of an OpenEnv server")
	}
	if h.Status != "healthy" {
		return fmt.Errorf("status is %q", h.Status)
	}
	return nil
}

// pollLimit bounds one poll: a server that takes a connection and never answers
// must not keep us from asking again, or from noticing that it has died.
const pollLimit = 5 * time.Second

// PollHealth polls until the server is ready, with a pause that grows from 20 ms
// to 500 ms. It ends early when ctx does or when alive, if not nil, returns an
// error: what was started has died. The error says what the last poll saw.
func PollHealth(ctx context.Context, client *http.Client, base *Base, header http.Header, alive func() error) error {
	pause := 20 * time.Millisecond
	var last error
	for {
		err := pollOnce(ctx, client, base, header)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // once ctx has ended a poll says only that
		}
		if alive != nil {
			if dead := alive(); dead != nil {
				return dead
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (last: %w)", base, context.Cause(ctx), last)
		case <-time.After(pause):
		}
		pause = min(pause*2, 500*time.Millisecond)
	}
}

func pollOnce(ctx context.Context, client *http.Client, base *Base, header http.Header) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pollLimit, fmt.Errorf("no answer within %v", pollLimit))
	defer cancel()
	if err := Health(ctx, client, base, header); err != nil {
		return ctxOr(ctx, err)
	}
	return nil
}
