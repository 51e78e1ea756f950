package envserver

import (
	"context"

	"github.com/openenv-go/openenv"
)

// Environment is what a developer writes: one episode at a time, typed. One value
// serves one session; calls on it never overlap. ctx ends when the client leaves or
// the server shuts down, and an environment that heeds it frees its session early.
//
// Optional methods: io.Closer, called once at the end; [Concurrent]; [Describer];
// [StrictReset]; [TaskProvider]; [ToolProvider].
type Environment[A, O, S any] interface {
	// Reset starts an episode.
	Reset(ctx context.Context, params ResetParams) (openenv.StepResult[O], error)
	// Step applies an action. An error is reported to the client as EXECUTION_ERROR
	// with its text, and the session goes on.
	Step(ctx context.Context, action A) (openenv.StepResult[O], error)
	// State returns a snapshot and changes nothing.
	State(ctx context.Context) (S, error)
}

// Concurrent is implemented by environments of which several may live in one process.
// Without it a server has one session. The answer must not depend on the value: it is
// also asked of a zero one.
type Concurrent interface{ ConcurrentSessions() bool }

// ResetParams are the parameters of a reset as the client sent them.
type ResetParams struct {
	Seed      *int64         // nil when the client gave none
	EpisodeID string         // empty when the client gave none
	Extra     openenv.Object // every other parameter
}

// Describer is implemented by environments that describe themselves; an option of the
// server wins. The answer must not depend on the value: it is asked of a zero one.
type Describer interface{ Metadata() openenv.Metadata }

// StrictReset is implemented by environments that name their reset parameters, beside
// seed and episode_id. Any other is answered with VALIDATION_ERROR that names it.
// Without it every parameter reaches the environment in ResetParams.Extra.
type StrictReset interface{ ResetParameters() []string }

// Split is a named set of tasks: train, validation or test.
type Split struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// TaskProvider is implemented by environments that offer tasks. It is asked on an
// environment that was built for the question. An index out of range is [ErrNoTask].
type TaskProvider interface {
	Splits(ctx context.Context) ([]Split, error)
	NumTasks(ctx context.Context, split string) (int, error)
	Task(ctx context.Context, split string, index int) (openenv.Object, error)
}

// SchemaProvider is implemented by action, observation and state types that encode
// themselves: the JSON Schema is theirs to tell. It is asked of a zero value, and
// [WithSchema] wins.
type SchemaProvider interface{ JSONSchema() string }

// ActionVariants is implemented by an action type that stands for several, told apart
// by the text in one member. An action with one of the texts is validated against the
// schema beside it, every other against the type's own, which GET /schema publishes.
// It is asked of a zero value.
type ActionVariants interface {
	ActionVariants() (member string, schemas map[string]string)
}
