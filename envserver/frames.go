package envserver

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// answer leaves the reply to one frame of the session socket in buf. The error tells
// a panic, after which the session ends.
func (k *socket) answer(msg message) (end bool, err error) {
	if msg.binary {
		k.h.touch()
		k.fail(wire.Error{Code: wire.CodeInvalidJSON, Message: "Invalid message: binary frames are not part of the protocol"})
		return false, nil
	}
	if !k.strict() {
		// Nearly every frame is a step of the usual spelling; the others are parsed.
		if data, ok := wire.StepData(msg.text); ok && decode(k.h.env, data) == nil {
			return false, k.perform(wire.TypeStep, nil)
		}
	}
	req, err := wire.ParseRequest(msg.text)
	if err != nil {
		k.h.touch()
		k.fail(wire.Error{Code: wire.CodeInvalidJSON, Message: "Invalid JSON: " + err.Error()})
		return false, nil //nolint:nilerr // the client is told; the session goes on
	}
	if invalid := checkEnvelope(req, jsontext.Value(msg.text)); invalid != nil {
		k.h.touch()
		k.fail(invalid.frame())
		return false, nil
	}
	return k.dispatch(req)
}

func (k *socket) dispatch(req wire.Request) (end bool, err error) {
	switch req.Type {
	case wire.TypeReset, wire.TypeStep, wire.TypeState:
		if k.strict() {
			k.h.touch()
			k.fail(wire.Error{Code: wire.CodeExecution, Message: req.Type + " is not available in production mode"})
			return false, nil
		}
		if req.Type == wire.TypeStep {
			if err := k.srv.kind.admit(k.h.env, req.Data); err != nil {
				return false, k.failWith(err)
			}
		}
		return false, k.perform(req.Type, req.Data)
	case wire.TypeMCP:
		return false, k.srv.answerMCP(k, req.Data)
	case wire.TypeClose:
		return true, nil
	default:
		k.h.touch()
		k.fail(wire.Error{Code: wire.CodeUnknownType, Message: "Unknown message type: " + req.Type})
	}
	return false, nil
}

func (k *socket) strict() bool {
	return k.srv.set.strictProduction && k.srv.set.mode == openenv.ModeProduction
}

// perform makes a call and leaves its reply, or the error frame of its error.
func (k *socket) perform(typ string, data jsontext.Value) error {
	err := k.do(call{typ: typ, data: data, out: k.buf})
	if err == nil {
		return nil
	}
	return k.failWith(err)
}

// failWith leaves the error frame of err. It returns err when it is a panic.
func (k *socket) failWith(err error) error {
	if invalid, ok := errors.AsType[*validationError](err); ok {
		k.h.touch()
		k.fail(invalid.frame())
		return nil
	}
	code, panicked := wire.CodeExecution, errors.Is(err, errPanicked)
	if why := k.calledOff(); why != nil && !panicked {
		code, err = wire.CodeCancelled, why
	}
	k.fail(wire.Error{Code: code, Message: err.Error()})
	if panicked {
		k.srv.logPanic(k.h.id, err)
		return err
	}
	return nil
}
