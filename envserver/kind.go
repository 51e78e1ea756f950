package envserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openenv-go/openenv"
)

// kind is an environment's type without its type parameters: what the sessions and
// routes need to know.
type kind struct {
	name       string
	concurrent bool
	hasTools   bool // environments are ToolProviders, or may be
	metadata   openenv.Metadata
	build      func(context.Context) (instance, error)
	actions    actions
	schemas    schemas
	passing    chan struct{} // as many throw-away environments as there are slots
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
	// prepare returns the call with everything that it needs, so that it can run while
	// the next action is decoded.
	prepare(typ string, data jsontext.Value) func(ctx context.Context, out *bytes.Buffer) error
	tasks() TaskProvider        // nil when the environment has none
	toolProvider() ToolProvider // the same
	close() error
}

func newKind[A, O, S any, E Environment[A, O, S]](spec openenv.Spec[A, O, S], build func(context.Context) (E, error), set *settings) (*kind, error) {
	if build == nil {
		return nil, errors.New("no function to build an environment")
	}
	if spec.EncodeAction != nil || spec.DecodeResult != nil || spec.DecodeState != nil {
		return nil, errors.New("a Spec with functions describes a foreign server; types that both ends use implement json.Marshaler instead")
	}
	transform, err := transformOf[O](set)
	if err != nil {
		return nil, err
	}
	all, err := newSchemas[A, O, S](set)
	if err != nil {
		return nil, err
	}
	of, err := newActions(all.action, reflect.TypeFor[A]())
	if err != nil {
		return nil, err
	}
	name := spec.Name
	if name == "" {
		name = reflect.TypeFor[E]().String()
	}
	return &kind{
		name:       name,
		hasTools:   mayHaveTools(reflect.TypeFor[E]()),
		concurrent: askZero(false, func(e E) bool { c, ok := any(e).(Concurrent); return ok && c.ConcurrentSessions() }),
		metadata: askZero(openenv.Metadata{}, func(e E) openenv.Metadata {
			if d, ok := any(e).(Describer); ok {
				return d.Metadata()
			}
			return openenv.Metadata{}
		}),
		actions: of,
		schemas: all,
		passing: make(chan struct{}, set.maxSessions),
		build: func(ctx context.Context) (instance, error) {
			env, err := build(ctx)
			if err != nil {
				return nil, err
			}
			if any(env) == nil {
				return nil, errors.New("build returned no environment")
			}
			return &typed[A, O, S]{env: env, actions: &of, transform: transform}, nil
		},
	}, nil
}

// mayHaveTools reports whether environments of a type are ToolProviders. An interface
// does not say: each environment is asked then.
func mayHaveTools(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || t.Implements(reflect.TypeFor[ToolProvider]())
}

func transformOf[O any](set *settings) (func(openenv.StepResult[O]) (openenv.StepResult[O], error), error) {
	if set.transform == nil {
		return nil, nil //nolint:nilnil // no transform is no error
	}
	f, ok := set.transform.(func(openenv.StepResult[O]) (openenv.StepResult[O], error))
	if !ok {
		return nil, fmt.Errorf("WithTransform: function is a %T, the environment's observation is %s", set.transform, reflect.TypeFor[O]())
	}
	return f, nil
}

// askZero asks a zero value, so that no environment is built for the answer. A method
// that looks at its receiver answers nothing.
func askZero[E, T any](otherwise T, ask func(E) T) (answer T) {
	defer func() {
		if recover() != nil {
			answer = otherwise
		}
	}()
	var zero E
	return ask(zero)
}

// admit decodes the action of the step that follows, or says all that is wrong with it.
func (k *kind) admit(env instance, data jsontext.Value) error {
	err := decode(env, data)
	if err == nil || errors.Is(err, errPanicked) {
		return err
	}
	v := k.actions.of(data)
	if fixed, ok := integers(v.schema, data); ok {
		if err := decode(env, fixed); err == nil {
			return nil
		}
	}
	return v.explain(data, err)
}

// decode contains the panics of a type that decodes itself.
func decode(env instance, data jsontext.Value) (err error) {
	defer contain(&err)
	return env.decode(data)
}
