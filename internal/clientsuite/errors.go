package clientsuite

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/openenv-go/openenv"
)

var errorCases = []testCase{
	{name: "the environment's own error", run: executionError},
	{name: "unknown and ill-typed actions", run: validationErrors},
	{name: "a spec's functions", run: specFunctions},
	{name: "a reply that does not fit the types", run: decodeErrors},
}

// Reports: the environment's own error is not hidden by a decoding error.
func executionError(p *play) {
	c := p.client()
	p.reset(c)
	_, err := c.Step(p.Context(), Action{"boom"})
	if se := p.serverError("Step", err, openenv.CodeExecution); se.Message != "boom" {
		p.Errorf("message %q, want the environment's own", se.Message)
	}
	if text := err.Error(); !strings.Contains(text, "step") || !strings.Contains(text, "boom") || !strings.Contains(text, "/ws") {
		p.Errorf("error text %q does not name operation, address and reason", text)
	}
	p.step(c, "the session lives on")
	p.steps(c, 2)
}

func validationErrors(p *play) {
	c := p.raw()
	if _, err := c.Reset(p.Context()); err != nil {
		p.Fatalf("Reset: %v", err)
	}
	for _, tt := range []struct {
		name   string
		action openenv.Object
		want   []openenv.FieldError
	}{
		{"no action at all", openenv.Object{}, []openenv.FieldError{
			{Type: "missing", Loc: []any{"message"}, Msg: "Field required", Input: openenv.Object{}},
		}},
		{"unknown field", openenv.Object{"msg": "hi"}, []openenv.FieldError{
			{Type: "missing", Loc: []any{"message"}, Msg: "Field required", Input: openenv.Object{"msg": "hi"}},
			{Type: "extra_forbidden", Loc: []any{"msg"}, Msg: "Extra inputs are not permitted", Input: "hi"},
		}},
		{"wrong type", openenv.Object{"message": 5}, []openenv.FieldError{
			{Type: "string_type", Loc: []any{"message"}, Msg: "Input should be a valid string", Input: 5.0},
		}},
		{"null", openenv.Object{"message": nil}, []openenv.FieldError{
			{Type: "string_type", Loc: []any{"message"}, Msg: "Input should be a valid string"},
		}},
		{"known and unknown", openenv.Object{"message": "hi", "loud": true}, []openenv.FieldError{
			{Type: "extra_forbidden", Loc: []any{"loud"}, Msg: "Extra inputs are not permitted", Input: true},
		}},
		{"metadata that is none", openenv.Object{"message": "hi", "metadata": 1}, []openenv.FieldError{
			{Type: "dict_type", Loc: []any{"metadata"}, Msg: "Input should be a valid dictionary", Input: 1.0},
		}},
	} {
		_, err := c.Step(p.Context(), tt.action)
		se := p.serverError(tt.name, err, openenv.CodeValidation)
		if got := se.Fields(); !reflect.DeepEqual(got, tt.want) {
			p.Errorf("%s: fields\n%+v, want\n%+v", tt.name, got, tt.want)
		}
		if !strings.Contains(err.Error(), tt.want[0].String()) {
			p.Errorf("%s: error text %q does not say %q", tt.name, err, tt.want[0])
		}
	}
	res, err := c.Step(p.Context(), openenv.Object{"message": "hi", "metadata": openenv.Object{"from": "an agent"}})
	if err != nil || res.Observation["echoed"] != "hi" {
		p.Errorf("an action with metadata: %+v, %v", res, err)
	}
	state, err := c.State(p.Context())
	if err != nil || state["step_count"] != 1.0 {
		p.Errorf("state %v, %v, want the one valid step", state, err)
	}
}

// specFunctions plays a client whose own types are not the protocol's.
func specFunctions(p *play) {
	spec := openenv.Spec[string, string, int]{
		Name:         "foreign",
		EncodeAction: func(text string) (any, error) { return Action{text}, nil },
		DecodeResult: decodeEchoed,
		DecodeState:  decodeSteps,
	}
	c := open(p, spec, p.server.URL)
	if _, err := c.Reset(p.Context()); err != nil {
		p.Fatalf("Reset: %v", err)
	}
	res, err := c.Step(p.Context(), "hi")
	if err != nil || res.Observation != "hi" || res.Reward == nil || *res.Reward != 0.2 {
		p.Errorf("Step = %+v, %v", res, err)
	}
	if steps, err := c.State(p.Context()); err != nil || steps != 1 {
		p.Errorf("State = %v, %v, want 1", steps, err)
	}
	_, err = c.Step(p.Context(), "boom")
	p.failed("Step", err)
}

// A reply that cannot be decoded was an answer all the same: the step is applied,
// the session goes on.
func decodeErrors(p *play) {
	type wrong struct {
		Echoed int `json:"echoed"`
	}
	c := open(p, openenv.Spec[Action, wrong, openenv.State]{Name: "wrong"}, p.server.URL)
	_, err := c.Reset(p.Context())
	var de *openenv.DecodeError
	if !errors.As(err, &de) {
		p.Fatalf("Reset: %v (%T), want a *DecodeError", err, err)
	}
	if !strings.Contains(de.Received, "ready") || de.Op != "reset" {
		p.Errorf("%+v does not show what was received", de)
	}
	_, err = c.Step(p.Context(), Action{"hi"})
	if !errors.As(err, &de) {
		p.Fatalf("Step: %v (%T), want a *DecodeError", err, err)
	}
	state, err := c.State(p.Context())
	if err != nil || state.StepCount != 1 {
		p.Errorf("State = %+v, %v, want 1 step", state, err)
	}
}
func decodeEchoed(data json.RawMessage) (openenv.StepResult[string], error) {
	var all struct {
		Observation struct {
			Echoed string `json:"echoed"`
		} `json:"observation"`
		Reward *float64 `json:"reward"`
		Done   bool     `json:"done"`
	}
	err := json.Unmarshal(data, &all)
	return openenv.StepResult[string]{Observation: all.Observation.Echoed, Reward: all.Reward, Done: all.Done}, err
}

func decodeSteps(data json.RawMessage) (int, error) {
	var state openenv.State
	err := json.Unmarshal(data, &state)
	return state.StepCount, err
}
