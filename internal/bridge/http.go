package bridge

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	methodInitialize = "initialize"
	sessionHeader    = "Mcp-Session-Id"

	headerLimit = 10 * time.Second
	endLimit    = time.Second // for answers that are being written when the server ends
)

// hall is the sessions of a server over HTTP.
type hall struct {
	config Config
	server *sdk.Server

	mu       sync.Mutex
	closed   bool
	sessions map[*sdk.ServerSession]*upstream
	leaving  sync.WaitGroup // the ends of sessions
}

// HTTP serves the streamable HTTP transport on l until ctx ends, and then returns nil.
// Each session of the protocol opens one of the environment when it is initialized, and
// closes it when it ends: by the host's DELETE, or after idle without a request (0:
// never). A request with a path other than / and /mcp is answered with 404.
//
// Before anything is served a session is opened once and closed again: an environment
// that is not there, is full or has no tools is an error. Then ready is called; its
// error ends the bridge, too. HTTP closes l.
func HTTP(ctx context.Context, l net.Listener, idle time.Duration, c Config, ready func() error) error {
	h := &hall{config: c, sessions: map[*sdk.ServerSession]*upstream{}}
	if err := h.prepare(ctx, ready); err != nil {
		return errors.Join(err, l.Close())
	}
	hs := &http.Server{Handler: h.handler(idle), ReadHeaderTimeout: headerLimit}
	serving, stop := context.WithCancel(ctx)
	var ending sync.WaitGroup
	ending.Go(func() {
		<-serving.Done()
		h.end(hs)
	})
	err := hs.Serve(l)
	stop()
	ending.Wait()
	h.leaving.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (h *hall) prepare(ctx context.Context, ready func() error) error {
	first, err := open(ctx, h.config.Dial)
	if err != nil {
		return err
	}
	about, instructions := h.config.describe(ctx, first.client)
	h.server = h.config.newServer(about, instructions, h.find)
	h.server.AddReceivingMiddleware(h.admit)
	if err := first.close(); err != nil {
		return err
	}
	return ready()
}

func (h *hall) handler(idle time.Duration) http.Handler {
	protocol := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return h.server }, &sdk.StreamableHTTPOptions{
		Logger:              h.config.logger(),
		SessionTimeout:      idle,
		MaxRequestBodyBytes: maxMessage,
	})
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var leaving *upstream
		if r.Method == http.MethodDelete {
			// The end waits for the calls that run, which nobody waits for any more.
			leaving = h.interrupt(r.Header.Get(sessionHeader))
		}
		protocol.ServeHTTP(w, r)
		if leaving != nil {
			// The answer, which goes out when this returns, says that the place is free.
			select {
			case <-leaving.closed:
			case <-r.Context().Done():
			}
		}
	})
	// A page in a browser must not reach a tool by its user's machine.
	guarded := http.NewCrossOriginProtection().Handler(served)
	mux := http.NewServeMux()
	mux.Handle("/mcp", guarded)
	mux.Handle("/{$}", guarded)
	return mux
}

// admit opens the environment's session with the protocol's.
func (h *hall) admit(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		session, ok := req.GetSession().(*sdk.ServerSession)
		if method != methodInitialize || !ok || h.find(session) != nil {
			return next(ctx, method, req)
		}
		u, err := open(ctx, h.config.Dial)
		if err != nil {
			return nil, err
		}
		if !h.enter(session, u) {
			return nil, errors.Join(http.ErrServerClosed, u.close())
		}
		return next(ctx, method, req)
	}
}

// enter keeps u until its session ends.
func (h *hall) enter(session *sdk.ServerSession, u *upstream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.sessions[session] = u
	h.leaving.Go(func() {
		_ = session.Wait() // how it ended is no matter
		h.leave(session)
		if err := u.close(); err != nil {
			h.config.logger().Warn("close the environment's session", "error", err)
		}
	})
	return true
}

func (h *hall) leave(session *sdk.ServerSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, session)
}

func (h *hall) find(s sdk.Session) *upstream {
	session, ok := s.(*sdk.ServerSession)
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[session]
}

// interrupt ends the calls of a session, which it returns; nil when there is none.
func (h *hall) interrupt(id string) *upstream {
	h.mu.Lock()
	defer h.mu.Unlock()
	for session, u := range h.sessions {
		if id != "" && session.ID() == id {
			u.interrupt()
			return u
		}
	}
	return nil
}

// end closes all sessions, and with them the streams that keep connections open, and
// then the server.
func (h *hall) end(hs *http.Server) {
	h.mu.Lock()
	h.closed = true
	var open []*sdk.ServerSession
	for session, u := range h.sessions {
		u.interrupt()
		open = append(open, session)
	}
	h.mu.Unlock()
	for _, session := range open {
		_ = session.Close() // leave sees its end
	}
	soon, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	if hs.Shutdown(soon) != nil {
		_ = hs.Close() // what is left is cut off
	}
}
