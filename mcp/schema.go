package mcp

// UnmarshalJSON reads an action so that the numbers in its arguments keep their digits.
func (a *Action) UnmarshalJSON(text []byte) error {
	type plain Action // without this method
	return decodeNumbers(text, (*plain)(a))
}

// JSONSchema describes a call, as GET /schema of the peer does for an environment of
// tools (core/env_server/mcp_types.py, CallToolAction).
func (*Action) JSONSchema() string {
	return `{
		"type": "object", "title": "CallToolAction",
		"description": "Call a specific tool via MCP.",
		"properties": {
			"type": {"type": "string", "enum": ["call_tool"], "default": "call_tool", "title": "Type", "description": "Action type discriminator"},
			"tool_name": {"type": "string", "title": "Tool Name", "description": "Name of the tool to call"},
			"arguments": {"type": "object", "additionalProperties": true, "title": "Arguments", "description": "Arguments to pass to the tool"}
		},
		"required": ["tool_name"], "additionalProperties": false
	}`
}

// ActionVariants has the other action of a tool environment (mcp_types.py,
// ListToolsAction; serialization.py looks at the type first).
func (*Action) ActionVariants() (member string, schemas map[string]string) {
	return "type", map[string]string{TypeListTools: `{
		"type": "object", "title": "ListToolsAction",
		"description": "Request list of available tools from the environment.",
		"properties": {"type": {"type": "string", "enum": ["list_tools"]}},
		"additionalProperties": false
	}`}
}

// JSONSchema describes the observation of a call.
func (*Observation) JSONSchema() string {
	return `{
		"type": "object", "title": "CallToolObservation",
		"description": "Response from tool execution.",
		"properties": {
			"tool_name": {"type": "string", "title": "Tool Name", "description": "Name of the tool that was called"},
			"result": {"title": "Result", "description": "Tool-specific result"},
			"error": {"type": ["object", "null"], "title": "Error", "description": "Why the call failed"},
			"tools": {"type": "array", "items": {"type": "object"}, "title": "Tools", "description": "The tools, in the answer to list_tools"}
		}
	}`
}
