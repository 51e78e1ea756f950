package envserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/openenv-go/openenv/internal/wire"
	"github.com/openenv-go/openenv/internal/wsock"
)

// serveSocket is one session, from the upgrade to the environment's close, on the
// goroutine of its request.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	base, ok := s.enter()
	if !ok {
		writeDetail(w, http.StatusServiceUnavailable, ErrServerClosed.Error())
		return
	}
	defer s.sessions.Done()
	sock, err := wsock.Accept(w, r, wsock.AcceptOptions{}, wsock.Options{
		ReadLimit:    s.set.maxMessage,
		PingInterval: s.set.pingInterval,
		PongTimeout:  s.set.pingTimeout,
		CloseTimeout: s.set.closeTimeout,
		WriteTimeout: s.set.writeTimeout,
	})
	if err != nil {
		s.set.logger.Debug("upgrade refused", "err", err)
		return
	}
	ss := &session{server: s, sock: sock, log: s.set.logger, buf: new(bytes.Buffer)}
	ss.base = base
	ss.ctx, ss.cancel = context.WithCancelCause(base)
	ss.inbox = newInbox(sock, func(err error) { ss.cancel(fmt.Errorf("client left: %w", err)) })
	code, reason := ss.run()
	ss.cancel(errSessionEnded)
	sock.Close(code, reason)
	ss.inbox.wait()
}

var (
	errSessionEnded = errors.New("session has ended")
	errPanicked     = errors.New("environment panicked")
)

// session is one socket and its environment.
type session struct {
	server *Server
	sock   *wsock.Conn
	inbox  *inbox
	env    instance
	base   context.Context // the server's
	ctx    context.Context // what the environment is given
	cancel context.CancelCauseFunc
	log    *slog.Logger
	buf    *bytes.Buffer // the reply in the making
}

// run takes a slot, builds the environment and answers until the client leaves. It
// returns how the socket is to be closed.
func (ss *session) run() (code int, reason string) {
	slots := &ss.server.slots
	used, ok := slots.take()
	if !ok {
		ss.refuse(wire.Error{
			Code:    wire.CodeCapacityReached,
			Message: fmt.Sprintf("Server at capacity: %d/%d sessions active. Cannot accept new connections.", used, slots.limit),
			Details: map[string]any{"active_sessions": used, "max_sessions": slots.limit},
		})
		return wsCloseNormal, ""
	}
	defer slots.give()
	if err := ss.build(); err != nil {
		ss.log.Warn("building an environment failed", "environment", ss.server.kind.name, "err", err)
		ss.refuse(wire.Error{
			Code:    wire.CodeFactory,
			Message: fmt.Sprintf("Environment factory '%s' failed to create instance.", ss.server.kind.name),
			Details: map[string]any{"factory_name": ss.server.kind.name},
		})
		return wsCloseNormal, ""
	}
	defer ss.closeEnvironment()
	return ss.serve()
}

const (
	wsCloseNormal = 1000
	wsGoingAway   = 1001
	wsInternal    = 1011

	shuttingDown = "server is shutting down"
)

func (ss *session) build() (err error) {
	ss.inbox.watch()
	defer ss.inbox.unwatch()
	defer contain(&err)
	ss.env, err = ss.server.kind.build(ss.ctx)
	return err
}

func (ss *session) closeEnvironment() {
	err := func() (err error) {
		defer contain(&err)
		return ss.env.close()
	}()
	if err != nil {
		ss.log.Warn("closing an environment failed", "environment", ss.server.kind.name, "err", err)
	}
}

// serve answers one frame after the other.
func (ss *session) serve() (code int, reason string) {
	stop := context.AfterFunc(ss.base, func() { ss.sock.Close(wsGoingAway, shuttingDown) })
	defer stop()
	for {
		msg, err := ss.inbox.next()
		if err != nil {
			if ss.base.Err() != nil {
				return wsGoingAway, shuttingDown
			}
			return wsCloseNormal, ""
		}
		ss.buf.Reset()
		end, err := ss.answer(msg)
		wire.PutBuffer(msg.buf)
		if end {
			return wsCloseNormal, ""
		}
		if werr := ss.write(ss.buf.Bytes()); werr != nil {
			return wsCloseNormal, ""
		}
		if errors.Is(err, errPanicked) {
			return wsInternal, "environment panicked"
		}
		if ss.buf.Cap() > 1<<20 {
			ss.buf = new(bytes.Buffer)
		}
	}
}

// answer leaves the reply frame in buf. The error is for the log and tells a panic.
func (ss *session) answer(msg message) (end bool, err error) {
	if msg.binary {
		ss.fail(wire.Error{Code: wire.CodeInvalidJSON, Message: "Invalid message: binary frames are not part of the protocol"})
		return false, nil
	}
	if data, ok := wire.StepData(msg.buf.Bytes()); ok && ss.env.decode(data) == nil {
		return false, ss.call(wire.TypeStep, nil)
	}
	req, err := wire.ParseRequest(msg.buf.Bytes())
	if err != nil {
		ss.fail(wire.Error{Code: wire.CodeInvalidJSON, Message: "Invalid JSON: " + err.Error()})
		return false, nil
	}
	if invalid := checkEnvelope(req); invalid != nil {
		ss.fail(invalid.frame())
		return false, nil
	}
	switch req.Type {
	case wire.TypeStep:
		if err := ss.env.decode(req.Data); err != nil {
			if err = ss.server.kind.action.explain(req.Data, err); err != nil {
				ss.failWith(err)
				return false, nil
			}
		}
		err = ss.call(req.Type, nil)
	case wire.TypeReset, wire.TypeState:
		err = ss.call(req.Type, req.Data)
	case wire.TypeMCP:
		ss.buf.Write(noMCP(req.Data))
	case wire.TypeClose:
		return true, nil
	default:
		ss.fail(wire.Error{Code: wire.CodeUnknownType, Message: "Unknown message type: " + req.Type})
	}
	return false, err
}

// call runs one method of the environment, watching for the client to leave, and
// turns its error into an error frame. It returns the error of a panic only.
func (ss *session) call(typ string, data jsontext.Value) error {
	ss.inbox.watch()
	err := ss.invoke(typ, data)
	ss.inbox.unwatch()
	if err == nil {
		return nil
	}
	ss.buf.Reset()
	ss.failWith(err)
	if errors.Is(err, errPanicked) {
		return err
	}
	return nil
}

func (ss *session) invoke(typ string, data jsontext.Value) (err error) {
	defer contain(&err)
	switch typ {
	case wire.TypeReset:
		return ss.env.reset(ss.ctx, data, ss.buf)
	case wire.TypeStep:
		return ss.env.step(ss.ctx, ss.buf)
	default:
		return ss.env.state(ss.ctx, ss.buf)
	}
}

// failWith answers with the error frame of err.
func (ss *session) failWith(err error) {
	var (
		invalid  *validationError
		panicked *panicError
	)
	switch {
	case errors.As(err, &invalid):
		ss.fail(invalid.frame())
		return
	case errors.As(err, &panicked):
		ss.log.Error("environment panicked", "environment", ss.server.kind.name, "panic", panicked.value, "stack", string(panicked.stack))
	}
	ss.fail(wire.Error{Code: wire.CodeExecution, Message: err.Error()})
}

// contain turns a panic of user code into an error with its stack in the log.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = &panicError{value: p, stack: debug.Stack()}
	}
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%v: %v", errPanicked, e.value) }
func (e *panicError) Unwrap() error { return errPanicked }

func (ss *session) fail(e wire.Error) {
	if err := wire.AppendError(ss.buf, e); err != nil {
		ss.buf.Reset()
		ss.buf.WriteString(`{"type":"error","data":{"message":"error cannot be encoded","code":"EXECUTION_ERROR"}}`)
	}
}

// refuse tells a client why it gets no session.
func (ss *session) refuse(e wire.Error) {
	ss.fail(e)
	_ = ss.write(ss.buf.Bytes()) // the socket is closed next in any case
}

func (ss *session) write(frame []byte) error { return ss.sock.Write(context.Background(), frame) }
