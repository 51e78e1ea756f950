package envserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	gojson "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// typed is an environment with its types.
type typed[A, O, S any] struct {
	env       Environment[A, O, S]
	actions   *actions
	transform func(openenv.StepResult[O]) (openenv.StepResult[O], error)
	action    A              // of the step that follows
	metadata  openenv.Object // sent with that action
}

var errShape = errors.New("action does not have the shape of its schema")

func (t *typed[A, O, S]) decode(data jsontext.Value) error {
	t.action, t.metadata = *new(A), nil
	if err := wire.Unmarshal(data, &t.action, wire.Float64); err != nil {
		return err
	}
	if carriesMetadata(data) {
		var m struct{ Metadata openenv.Object }
		if err := wire.Unmarshal(data, &m, wire.Float64); err != nil {
			return err
		}
		t.metadata = m.Metadata
	}
	if !t.actions.of(data).shape.accepts(data) {
		return errShape
	}
	return nil
}

// carriesMetadata reports whether an action may have metadata to read. Python clients
// send an empty object with every action, which is not worth a second decoding.
func carriesMetadata(data []byte) bool {
	_, after, found := bytes.Cut(data, []byte(`"metadata"`))
	if !found {
		return false
	}
	after = skipSpace(after)
	if len(after) == 0 || after[0] != ':' {
		return true
	}
	after = skipSpace(after[1:])
	return !bytes.HasPrefix(after, []byte("{}"))
}

type metadataKey struct{}

// ActionMetadata returns the metadata that the client sent with the action of the step
// that ctx was given to; nil when it sent none.
func ActionMetadata(ctx context.Context) openenv.Object {
	m, _ := ctx.Value(metadataKey{}).(openenv.Object)
	return m
}

// take hands the decoded action over: an idle session does not hold on to it.
func (t *typed[A, O, S]) take(ctx context.Context) (A, context.Context) {
	action := t.action
	if len(t.metadata) > 0 {
		ctx = context.WithValue(ctx, metadataKey{}, t.metadata)
	}
	t.action, t.metadata = *new(A), nil
	return action, ctx
}

func (t *typed[A, O, S]) step(ctx context.Context, out *bytes.Buffer) error {
	action, ctx := t.take(ctx)
	res, err := t.env.Step(ctx, action)
	return t.finish(res, err, out)
}

func (t *typed[A, O, S]) reset(ctx context.Context, data jsontext.Value, out *bytes.Buffer) error {
	params, err := decodeReset(data)
	if err != nil {
		return err
	}
	if strict, ok := t.env.(StrictReset); ok {
		if err := checkKnown(data, strict.ResetParameters()); err != nil {
			return err
		}
	}
	res, err := t.env.Reset(ctx, params)
	return t.finish(res, err, out)
}

func (t *typed[A, O, S]) prepare(typ string, data jsontext.Value) func(context.Context, *bytes.Buffer) error {
	switch typ {
	case wire.TypeStep:
		action, with := t.take(context.Background())
		metadata := ActionMetadata(with)
		return func(ctx context.Context, out *bytes.Buffer) error {
			if len(metadata) > 0 {
				ctx = context.WithValue(ctx, metadataKey{}, metadata)
			}
			res, err := t.env.Step(ctx, action)
			return t.finish(res, err, out)
		}
	case wire.TypeReset:
		return func(ctx context.Context, out *bytes.Buffer) error { return t.reset(ctx, data, out) }
	}
	return t.state
}

// finish encodes a result, or names what in it cannot be sent.
func (t *typed[A, O, S]) finish(res openenv.StepResult[O], err error, out *bytes.Buffer) error {
	if err == nil && t.transform != nil {
		res, err = t.transform(res)
	}
	if err != nil {
		return err
	}
	if r := res.Reward; r != nil && (math.IsNaN(*r) || math.IsInf(*r, 0)) {
		return fmt.Errorf("environment returned a reward of %v, which JSON cannot carry", *r)
	}
	if err := wire.AppendObservation(out, res.Observation, res.Reward, res.Done, res.Metadata); err != nil {
		return encodeError("an observation", res.Observation, err)
	}
	return nil
}

// encodeError names the place in v that cannot be encoded: the encoder itself does so
// only when it is told to.
func encodeError(what string, v any, err error) error {
	_, again := gojson.Marshal(v, jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))
	if se, ok := errors.AsType[*gojson.SemanticError](again); ok && se.JSONPointer != "" && se.Err != nil {
		return fmt.Errorf("environment returned %s that cannot be encoded: %s: %w", what, se.JSONPointer, se.Err)
	}
	return fmt.Errorf("environment returned %s that cannot be encoded: %w", what, err)
}

func (t *typed[A, O, S]) state(ctx context.Context, out *bytes.Buffer) error {
	state, err := t.env.State(ctx)
	if err != nil {
		return err
	}
	if err := wire.AppendFrame(out, wire.TypeState, state); err != nil {
		return encodeError("a state", state, err)
	}
	return nil
}

func (t *typed[A, O, S]) tasks() TaskProvider {
	p, _ := t.env.(TaskProvider)
	return p
}

func (t *typed[A, O, S]) toolProvider() ToolProvider {
	p, _ := t.env.(ToolProvider)
	return p
}

func (t *typed[A, O, S]) close() error {
	if c, ok := t.env.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
