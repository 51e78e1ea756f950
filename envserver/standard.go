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
	st := &standardSession{h: h, over: make(chan struct{}), quiet: make(chan struct{}, 1), used: time.Now()}
	m.mu.Lock()
	m.sessions[h.id] = st // first: the client may be quick to open its stream
	m.mu.Unlock()
	proxy := m.server(h.id, h)
	m.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), proxyKey{}, proxy)))
	for session := range proxy.Sessions() {
		l.running.Go(func() { m.watch(l, st, session) })
		return
	}
	m.drop(st, errSessionEnded) // the SDK did not take it, or the client has ended it
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
