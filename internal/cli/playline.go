package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// What a line of play asks for.
const (
	opReset = "reset"
	opStep  = "step"
	opState = "state"
	opHelp  = "help"
	opQuit  = "quit"
	opInput = "input" // stands for the operation of a line that is not understood
)

// accepted is what a line may be.
var accepted = [][2]string{
	{"reset [key=value …]", "start an episode: reset seed=3 level=hard options={\"a\": 1}"},
	{"{…}", "take a step: the action, as a JSON object"},
	{"state", "show the environment's state"},
	{"help", "show this"},
	{"quit", "leave, as the end of the input does"},
}

// request is a line that was understood.
type request struct {
	op     string
	params []param
	action openenv.Object
}

// param is a parameter of reset.
type param struct {
	key   string
	value any // a json.RawMessage or a string
}

// lineError is a line that was not. Nothing was sent.
type lineError struct{ text string }

func (e *lineError) Error() string { return e.text }

func badLine(format string, args ...any) error {
	return &usageError{&lineError{fmt.Sprintf(format, args...)}}
}

// parseLine reads one line that is not blank.
func parseLine(line string) (request, error) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "{") {
		action, err := parseAction(line)
		return request{op: opStep, action: action}, err
	}
	word := strings.Fields(line)[0]
	rest := line[len(word):]
	if word == opReset {
		params, err := parseParams(rest)
		return request{op: opReset, params: params}, err
	}
	switch word {
	case opState, opHelp, opQuit:
		if rest = strings.TrimSpace(rest); rest != "" {
			return request{op: word}, badLine("%s takes nothing after it, got %q", word, clip(rest))
		}
		return request{op: word}, nil
	}
	return request{op: opInput}, badLine("%q is not understood: a line is reset [key=value …], an action as a JSON object, state, help or quit", clip(line))
}

// parseAction keeps every digit of the numbers in an action.
func parseAction(line string) (openenv.Object, error) {
	var action openenv.Object
	if err := wire.Unmarshal([]byte(line), &action, wire.JSONNumber); err != nil {
		return nil, badLine("the action is not a JSON object: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return action, nil
}

// parseParams reads key=value pairs. A value that is JSON may contain spaces.
func parseParams(text string) ([]param, error) {
	var params []param
	seen := make(map[string]bool)
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		key, rest, ok := strings.Cut(text, "=")
		key = strings.TrimSpace(key)
		switch {
		case !ok || key == "" || strings.ContainsAny(key, " \t"):
			return nil, badLine("reset takes parameters as key=value, got %q", clip(text))
		case seen[key]:
			return nil, badLine("reset got %s twice", key)
		}
		seen[key] = true
		value, rest := parseValue(rest)
		params = append(params, param{key, value})
		text = rest
	}
	return params, nil
}

// parseValue takes one value off text: JSON if it is JSON up to a space or the end,
// otherwise the characters up to there.
func parseValue(text string) (value any, rest string) {
	dec := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if text != "" && !isBlank(text[0]) && dec.Decode(&raw) == nil {
		rest = text[dec.InputOffset():]
		if rest == "" || isBlank(rest[0]) {
			return json.RawMessage(bytes.TrimSpace(raw)), rest
		}
	}
	end := strings.IndexAny(text, " \t")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
