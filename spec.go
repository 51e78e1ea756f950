package openenv

import (
	"encoding/json"
)

// Object is a JSON object: the action, observation and state of a raw-map client.
type Object = map[string]any

// Spec ties the three types of an environment together. An environment package
// exports one as a variable, and both ends use it:
//
//	var Spec = openenv.Spec[Action, Observation, openenv.State]{Name: "echo"}
//
// With nil functions the JSON tags of the types are the protocol. The functions are
// a client's view of a foreign server whose JSON does not fit the types;
// envserver refuses a Spec that sets one. They must be safe for concurrent use.
type Spec[A, O, S any] struct {
	// Name is the environment's name, for messages and for the server's metadata.
	Name string
	// EncodeAction returns the value to send as the action; it must encode as a
	// JSON object.
	EncodeAction func(A) (any, error)
	// DecodeResult decodes the data of an observation frame.
	DecodeResult func(json.RawMessage) (StepResult[O], error)
	// DecodeState decodes the data of a state frame.
	DecodeState func(json.RawMessage) (S, error)
}

// Generic is the spec of any environment as raw maps: nothing of the environment
// needs to be installed, and nothing of it runs here.
var Generic Spec[Object, Object, Object]

// GenericClient is a client over raw maps, made with [Generic].
type GenericClient = Client[Object, Object, Object]
