package envserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openenv-go/openenv/internal/wire"
)

// standardIdle is how long a session of the standard protocol may rest on a server
// without [WithIdleTimeout]. Its clients come and go without a word, and each holds a
// slot; an open stream of events is use.
const standardIdle = 30 * time.Minute

// standard speaks the Model Context Protocol over streamable HTTP: each of its sessions
// is one of the server's, with an environment of its own that is reset once at the
// start, because its clients know no reset.
type standard struct {
	srv     *Server
	handler *sdk.StreamableHTTPHandler
	lobby   *sdk.Server // answers what needs no session

	mu       sync.Mutex
	sessions map[string]*standardSession
}

type standardSession struct {
	h       *hosted
	session *sdk.ServerSession
	over    chan struct{} // closed when the slot is free again

	mu      sync.Mutex
	posts   int // requests in progress
	streams int // of events, that are open
	used    time.Time
	quiet   chan struct{} // capacity 1: the last request has ended
}

type proxyKey struct{}

func newStandard(s *Server) *standard {
	m := &standard{srv: s, sessions: make(map[string]*standardSession)}
	m.lobby = m.server("", nil)
	limit := s.set.maxMessage
	if limit == 0 {
		limit = -1
	}
	m.handler = sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if proxy, ok := r.Context().Value(proxyKey{}).(*sdk.Server); ok {
			return proxy
		}
		return m.lobby
	}, &sdk.StreamableHTTPOptions{
		MaxRequestBodyBytes:        limit,
		DisableLocalhostProtection: true, // Server.guard has the rule for all routes
	})
	return m
}

// server makes the SDK's side of a session. It has no tools of its own: what is asked
// of them goes to the environment. With a nil session it is the lobby.
func (m *standard) server(id string, h *hosted) *sdk.Server {
	kind, set := m.srv.kind, m.srv.set
	name, version := set.metadata.Name, set.metadata.Version
	if name == "" {
		name = kind.name
	}
	if version == "" {
		version = "1.0.0"
	}
	proxy := sdk.NewServer(&sdk.Implementation{Name: name, Version: version}, &sdk.ServerOptions{
		Instructions: set.metadata.Description,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		GetSessionID: func() string { return id },
	})
	proxy.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			switch r := req.(type) {
			case *sdk.ListToolsRequest:
				return m.tools(ctx, h, nil)
			case *sdk.CallToolRequest:
				return m.tools(ctx, h, r.Params)
			}
			return next(ctx, method, req)
		}
	})
	return proxy
}

// tools lists the tools of a session, or calls one.
func (m *standard) tools(ctx context.Context, h *hosted, params *sdk.CallToolParamsRaw) (sdk.Result, error) {
	if h == nil {
		return nil, &jsonrpc.Error{Code: rpcInvalidRequest, Message: "no session: initialize first"}
	}
	do := func(c call) error {
		ctx, cancel := h.bound(ctx)
		defer cancel()
		return h.do(ctx, c)
	}
	if params == nil {
		return standardList(do)
	}
	return m.standardCall(h, do, toolParams{Name: params.Name, Arguments: params.Arguments})
}

func standardList(do func(call) error) (sdk.Result, error) {
	tools, err := listTools(do)
	if err != nil {
		return nil, err
	}
	if tools == nil {
		tools = []*sdk.Tool{}
	}
	return &sdk.ListToolsResult{Tools: tools}, nil
}

// standardCall answers a failed call as the standard asks: a tool that does not exist
// is an error of the protocol, everything else is a result that models can read.
func (m *standard) standardCall(h *hosted, do func(call) error, params toolParams) (sdk.Result, error) {
	result, err := callTool(do, params)
	if err == nil {
		if result.Content == nil {
			copied := *result
			copied.Content = []sdk.Content{}
			result = &copied
		}
		return result, nil
	}
	if errors.Is(err, errPanicked) {
		h.breakDown(err)
	}
	failure := toolErrorOf(err)
	if failure.Type == ToolErrorNotFound {
		return nil, &jsonrpc.Error{Code: rpcInvalidParams, Message: failure.Message, Data: errorData(failure)}
	}
	failed := &sdk.CallToolResult{Meta: sdk.Meta{"error_type": failure.Type}}
	failed.SetError(failure)
	return failed, nil
}

func errorData(e *ToolError) json.RawMessage {
	text, err := json.Marshal(map[string]string{"error_type": e.Type})
	if err != nil {
		return nil
	}
	return text
}

// post serves a message. One that begins a session gets an environment first.
func (m *standard) post(w http.ResponseWriter, r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "*/*") // what no such header means
	}
	if r.Header.Get(sessionHeader) == "" && methodOf(body) == "initialize" {
		m.initialize(w, r, body)
		return
	}
	if st := m.find(r); st != nil {
		st.note(1, 0)
		defer st.note(-1, 0)
	}
	m.handler.ServeHTTP(w, r)
}

// get serves the stream of events of a session.
func (m *standard) get(w http.ResponseWriter, r *http.Request) {
	if st := m.find(r); st != nil {
		st.note(0, 1)
		defer st.note(0, -1)
	}
	m.handler.ServeHTTP(w, r)
}

// delete ends a session. The answer says that its slot is free.
func (m *standard) delete(w http.ResponseWriter, r *http.Request) {
	st := m.find(r)
	if st == nil {
		m.handler.ServeHTTP(w, r) // which says what is wrong
		return
	}
	st.h.end(errSessionEnded)
	select {
	case <-st.over:
	case <-r.Context().Done():
	}
	w.WriteHeader(http.StatusNoContent)
}

func (m *standard) find(r *http.Request) *standardSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[r.Header.Get(sessionHeader)]
}

// initialize makes the session that a client begins. A refusal is a 503 whose body says
// why, as an error of JSON-RPC.
func (m *standard) initialize(w http.ResponseWriter, r *http.Request, body []byte) {
	refuse := func(err error) {
		var req rpcRequest
		_ = wire.Unmarshal(body, &req, wire.Float64) // without a readable id the answer has none
		m.refuse(w, req.ID, err)
	}
	l, ok := m.srv.enter()
	if !ok {
		refuse(ErrServerClosed)
		return
	}
	defer l.running.Done()
	h, err := m.open(r.Context(), l)
	if err != nil {
		refuse(err)
		return
	}
	proxy := m.server(h.id, h)
	m.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), proxyKey{}, proxy)))
	for session := range proxy.Sessions() {
		st := &standardSession{h: h, session: session, over: make(chan struct{}), quiet: make(chan struct{}, 1), used: time.Now()}
		m.mu.Lock()
		m.sessions[h.id] = st
		m.mu.Unlock()
		l.running.Go(func() { m.watch(l, st) })
		return
	}
	h.end(errSessionEnded) // the SDK did not take it
}

// open makes a session and resets its environment.
func (m *standard) open(ctx context.Context, l *life) (*hosted, error) {
	ctx, cancel := l.bound(ctx)
	defer cancel()
	h, err := m.srv.host(ctx, l.base, l)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := h.do(ctx, call{typ: wire.TypeReset, out: &out}); err != nil {
		m.srv.logPanic(h.id, err)
		h.end(err)
		return nil, err
	}
	return h, nil
}

func (m *standard) refuse(w http.ResponseWriter, id json.RawMessage, err error) {
	var data any
	if about := refusalData(err); about != nil {
		data = about
	}
	text, merr := wire.Marshal(rpcFail(id, rpcServer, err.Error(), data))
	if merr != nil {
		writeDetail(w, http.StatusInternalServerError, merr.Error())
		return
	}
	writeJSON(w, http.StatusServiceUnavailable, text)
}

// watch ends a session with whatever ends first: the SDK's session, the environment,
// the server, or the client's interest.
func (m *standard) watch(l *life, st *standardSession) {
	defer close(st.over)
	ended := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() { defer close(ended); _ = st.session.Wait() }) // why it ended is no news
	cause := st.outlast(l, ended, m.idleLimit())
	m.mu.Lock()
	delete(m.sessions, st.h.id)
	m.mu.Unlock()
	st.h.cancel(cause)     // the SDK waits for calls
	_ = st.session.Close() // a session that has ended says so
	waiter.Wait()
	st.h.end(cause)
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
