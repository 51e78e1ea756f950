package envserver

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openenv-go/openenv/internal/wire"
)

// The HTTP control routes run on an environment that is built for the one request and
// thrown away (http_server.py, reset_handler and step_handler): episodes live on the
// session socket. It takes no session slot, as on the peer, but no more of them run at
// once than the server has slots.

func (s *Server) serveReset(w http.ResponseWriter, r *http.Request) {
	body, ok := s.readBody(w, r)
	if !ok {
		return
	}
	data, invalid := resetBody(body)
	if invalid != nil {
		writeDetail(w, http.StatusUnprocessableEntity, invalid)
		return
	}
	s.once(w, r, nil, call{typ: wire.TypeReset, data: data})
}

func (s *Server) serveStep(w http.ResponseWriter, r *http.Request) {
	body, ok := s.readBody(w, r)
	if !ok {
		return
	}
	action, invalid := stepBody(body)
	if invalid != nil {
		writeDetail(w, http.StatusUnprocessableEntity, invalid)
		return
	}
	s.once(w, r, func(env instance) error { return s.kind.admit(env, action) }, call{typ: wire.TypeStep})
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request) {
	s.once(w, r, nil, call{typ: wire.TypeState})
}

// once makes one call on an environment of its own, after admit, and answers with the
// data of the reply frame.
func (s *Server) once(w http.ResponseWriter, r *http.Request, admit func(instance) error, c call) {
	var out bytes.Buffer
	c.out = &out
	err := s.throwaway(r.Context(), admit, c)
	var invalid *validationError
	switch {
	case err == nil:
		data, derr := wire.Data(out.Bytes())
		if derr != nil {
			writeDetail(w, http.StatusInternalServerError, derr.Error())
			return
		}
		writeJSON(w, http.StatusOK, withMetadata(data))
	case errors.As(err, &invalid):
		writeDetail(w, http.StatusUnprocessableEntity, invalid.errs)
	default:
		writeFailure(w, err)
	}
}

// writeFailure answers with an error that is not the request's.
func writeFailure(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.Is(err, ErrServerClosed) {
		status = http.StatusServiceUnavailable
	}
	writeDetail(w, status, err.Error())
}

// throwaway makes one call on an environment that is built for it and closed after it.
func (s *Server) throwaway(ctx context.Context, admit func(instance) error, c call) error {
	l, ok := s.enter()
	if !ok {
		return ErrServerClosed
	}
	defer l.running.Done()
	ctx, cancel := l.bound(ctx)
	defer cancel()
	select {
	case s.kind.passing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	h := s.newHosted(l.base, s.thread(l), func() { <-s.kind.passing })
	h.id = "http"
	err := h.build(ctx)
	switch {
	case ctx.Err() != nil: // nobody waits for it, whatever became of it
		err = context.Cause(ctx)
	case err != nil:
		s.logPanic(h.id, err)
		s.set.logger.Warn("building an environment failed", "session", h.id, "environment", s.kind.name, "err", err)
		err = &factoryError{s.kind.name, err}
	default:
		err = h.admitted(ctx, admit, c)
		s.logPanic(h.id, err)
	}
	if h.overstayed() || overdue(err) {
		l.running.Go(func() { h.end(err) }) // the client is not to wait for it
	} else {
		h.end(err)
	}
	return err
}

// admitted makes a call that admit has nothing against.
func (h *hosted) admitted(ctx context.Context, admit func(instance) error, c call) error {
	if admit != nil {
		if err := admit(h.env); err != nil {
			return err
		}
	}
	return h.do(ctx, c)
}

// withMetadata adds the member that the peer's HTTP replies always have.
func withMetadata(data jsontext.Value) []byte {
	if data.Kind() != '{' || !bytes.Contains(data, []byte(`"observation"`)) || wire.HasMember(data, "metadata") {
		return data
	}
	return append(data[:len(data)-1:len(data)-1], `,"metadata":null}`...)
}
