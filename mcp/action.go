package mcp

import (
	"encoding/json"

	"github.com/openenv-go/openenv"
)

// Spec is the step protocol of every tool environment.
var Spec = openenv.Spec[Action, Observation, openenv.State]{Name: "mcp"}

// The types of an [Action] (core/env_server/mcp_types.py).
const (
	TypeListTools = "list_tools"
	TypeCallTool  = "call_tool"
)

// Action is a tool action taken as a step.
type Action struct {
	Type      string         `json:"type"`
	ToolName  string         `json:"tool_name,omitempty"`
	Arguments openenv.Object `json:"arguments,omitzero"`
}

// ListToolsAction asks for the tools.
func ListToolsAction() Action { return Action{Type: TypeListTools} }

// CallToolAction calls a tool. Nil arguments are none.
func CallToolAction(name string, arguments openenv.Object) Action {
	if arguments == nil {
		arguments = openenv.Object{}
	}
	return Action{Type: TypeCallTool, ToolName: name, Arguments: arguments}
}

// Observation is the answer to an [Action]: Tools for a list, the others for a call.
// What an environment adds of its own, in the answer to a reset for instance, is in
// Extra. Tools and Result are JSON as the server sent it; [Client] decodes them.
type Observation struct { //nolint:recvcheck // encoded by value, decoded in place
	Tools    json.RawMessage
	ToolName string
	Result   json.RawMessage
	Error    *ToolFailure
	Extra    openenv.Object
}

// ToolFailure is what a step says of a call that failed.
type ToolFailure struct {
	Kind    Kind   `json:"error_type"`
	Message string `json:"message"`
}
