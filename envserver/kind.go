package envserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// kind is an environment's type without its type parameters: what the sessions and
// routes need to know.
type kind struct {
	name       string
	concurrent bool
	build      func(context.Context) (instance, error)
	action     *validator
	schemas    func() ([]byte, error)
}

// instance is one environment behind bytes: data in, the reply frame out. Its calls
// never overlap.
type instance interface {
	reset(ctx context.Context, data jsontext.Value, out *bytes.Buffer) error
	// decode reads the action of the step that follows. It fails on data that is not
	// one JSON value, too; what exactly is wrong is for the validator to say.
	decode(data jsontext.Value) error
	step(ctx context.Context, out *bytes.Buffer) error
	state(ctx context.Context, out *bytes.Buffer) error
	close() error
}

func newKind[A, O, S any, E Environment[A, O, S]](spec openenv.Spec[A, O, S], build func(context.Context) (E, error)) (*kind, error) {
	if build == nil {
		return nil, errors.New("no function to build an environment")
	}
	if spec.EncodeAction != nil || spec.DecodeResult != nil || spec.DecodeState != nil {
		return nil, errors.New("a Spec with functions describes a foreign server; types that both ends use implement json.Marshaler instead")
	}
	action, err := newValidator[A]()
	if err != nil {
		return nil, fmt.Errorf("action schema: %w", err)
	}
	name := spec.Name
	if name == "" {
		name = reflect.TypeFor[E]().String()
	}
	return &kind{
		name:       name,
		concurrent: declaresConcurrent[E](),
		action:     action,
		schemas:    func() ([]byte, error) { return encodeSchemas[A, O, S]() },
		build: func(ctx context.Context) (instance, error) {
			env, err := build(ctx)
			if err != nil {
				return nil, err
			}
			return &typed[A, O, S]{env: env, shape: action.shape}, nil
		},
	}, nil
}

// declaresConcurrent asks a zero value, so that no environment is built for it.
func declaresConcurrent[E any]() (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false // a method that looks at its receiver declares nothing
		}
	}()
	var zero E
	c, ok := any(zero).(Concurrent)
	return ok && c.ConcurrentSessions()
}

type typed[A, O, S any] struct {
	env    Environment[A, O, S]
	shape  *shape
	action A // of the step that follows
}

var errShape = errors.New("action does not have the shape of its schema")

func (t *typed[A, O, S]) reset(ctx context.Context, data jsontext.Value, out *bytes.Buffer) error {
	params, err := decodeReset(data)
	if err != nil {
		return err
	}
	res, err := t.env.Reset(ctx, params)
	if err != nil {
		return err
	}
	return wire.AppendObservation(out, res.Observation, res.Reward, res.Done, res.Metadata)
}

func (t *typed[A, O, S]) decode(data jsontext.Value) error {
	t.action = *new(A)
	if err := wire.Unmarshal(data, &t.action, wire.Float64); err != nil {
		return err
	}
	if !t.shape.accepts(data) {
		return errShape
	}
	return nil
}

func (t *typed[A, O, S]) step(ctx context.Context, out *bytes.Buffer) error {
	action := t.action
	t.action = *new(A) // an idle session does not hold on to a large action
	res, err := t.env.Step(ctx, action)
	if err != nil {
		return err
	}
	return wire.AppendObservation(out, res.Observation, res.Reward, res.Done, res.Metadata)
}

func (t *typed[A, O, S]) state(ctx context.Context, out *bytes.Buffer) error {
	state, err := t.env.State(ctx)
	if err != nil {
		return err
	}
	return wire.AppendFrame(out, wire.TypeState, state)
}

func (t *typed[A, O, S]) close() error {
	if c, ok := t.env.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// decodeReset splits off the two parameters that every environment has.
func decodeReset(data jsontext.Value) (ResetParams, error) {
	var p ResetParams
	if len(data) == 0 {
		return p, nil
	}
	var all openenv.Object
	if err := wire.Unmarshal(data, &all, wire.Float64); err != nil {
		return p, err
	}
	var known struct {
		Seed      *int64  `json:"seed"`
		EpisodeID *string `json:"episode_id"`
	}
	if err := wire.Unmarshal(data, &known, wire.Float64); err != nil {
		return p, resetError(all)
	}
	p.Seed = known.Seed
	if known.EpisodeID != nil {
		p.EpisodeID = *known.EpisodeID
	}
	delete(all, "seed")
	delete(all, "episode_id")
	if len(all) > 0 {
		p.Extra = all
	}
	return p, nil
}

// resetError says which of the two parameters has the wrong type.
func resetError(data openenv.Object) error {
	var errs []fieldError
	if v, ok := data["seed"]; ok && v != nil {
		if f, isNumber := v.(float64); !isNumber || f != float64(int64(f)) {
			errs = append(errs, fieldError{Type: "int_type", Loc: []any{"seed"}, Msg: "Input should be a valid integer", Input: v})
		}
	}
	if v, ok := data["episode_id"]; ok && v != nil {
		if _, isString := v.(string); !isString {
			errs = append(errs, fieldError{Type: "string_type", Loc: []any{"episode_id"}, Msg: "Input should be a valid string", Input: v})
		}
	}
	return &validationError{errs}
}
