package envserver

import (
	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/internal/wire"
)

// object is a piece of the OpenAPI document.
type object = map[string]any

// route is one HTTP route as the document and the page list it.
type route struct {
	method, path, tag, summary string
	body, answer               object // schemas; nil when there is none
	params                     []string
	errors                     []string
	control                    bool // not there in production
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func anyObject() object { return object{"type": "object", "additionalProperties": true} }

// routeTable lists the HTTP routes once, for everything that describes them.
func routeTable() []route {
	split := object{"type": "string"}
	body := func(props object, required ...string) object {
		return object{"type": "object", "properties": props, "required": required}
	}
	list := func(of object) object { return object{"type": "array", "items": of} }
	number := object{"type": "integer"}
	return []route{
		{method: "get", path: "/health", tag: "Health", summary: "Health check", answer: ref("Health")},
		{method: "get", path: "/metadata", tag: "Environment Info", summary: "Get environment metadata", answer: ref("Metadata")},
		{method: "get", path: "/schema", tag: "Schema", summary: "Get all JSON schemas", answer: anyObject()},
		{method: "post", path: "/reset", tag: "Environment Control", summary: "Reset a throw-away environment", body: ref("ResetRequest"), answer: ref("Result"), errors: []string{"422", "500", "503"}, control: true},
		{method: "post", path: "/step", tag: "Environment Control", summary: "Step a throw-away environment", body: ref("StepRequest"), answer: ref("Result"), errors: []string{"422", "500", "503"}, control: true},
		{method: "get", path: "/state", tag: "State Management", summary: "Get the state of a throw-away environment", answer: ref("State"), errors: []string{"500", "503"}, control: true},
		{method: "post", path: "/mcp", tag: "MCP", summary: "JSON-RPC 2.0: tools and sessions", body: ref("JsonRpcRequest"), answer: anyObject()},
		{method: "get", path: "/list_environments", tag: "Task API", summary: "List environments", answer: list(object{"type": "string"})},
		{method: "get", path: "/{env}/splits", tag: "Task API", summary: "List splits", params: []string{"env"}, answer: list(anyObject()), errors: []string{"404", "501"}},
		{method: "post", path: "/{env}/tasks", tag: "Task API", summary: "List the tasks of a split", params: []string{"env"}, body: body(object{"split": split}, "split"), answer: anyObject(), errors: []string{"400", "404", "422", "501"}},
		{method: "post", path: "/{env}/num_tasks", tag: "Task API", summary: "Count the tasks of a split", params: []string{"env"}, body: body(object{"split": split}, "split"), answer: anyObject(), errors: []string{"400", "404", "422", "501"}},
		{method: "post", path: "/{env}/task", tag: "Task API", summary: "Get one task", params: []string{"env"}, body: body(object{"split": split, "index": number}, "split", "index"), answer: anyObject(), errors: []string{"400", "404", "422", "501"}},
		{method: "post", path: "/{env}/task_range", tag: "Task API", summary: "Get a range of tasks", params: []string{"env"}, body: body(object{"split": split, "start": number, "stop": number}, "split"), answer: anyObject(), errors: []string{"400", "404", "422", "501"}},
	}
}

// routesOf are the routes that a server has in its mode.
func routesOf(set *settings) []route {
	var rs []route
	for _, r := range routeTable() {
		if !r.control || set.mode == openenv.ModeSimulation {
			rs = append(rs, r)
		}
	}
	return rs
}

// encodeOpenAPI is the body of GET /openapi.json.
func encodeOpenAPI(k *kind, about openenv.Metadata, set *settings) ([]byte, error) {
	paths := object{}
	for _, r := range routesOf(set) {
		at, ok := paths[r.path].(object)
		if !ok {
			at = object{}
			paths[r.path] = at
		}
		at[r.method] = operation(r)
	}
	doc := object{
		"openapi":    "3.1.0",
		"info":       object{"title": about.Name, "description": about.Description, "version": about.Version},
		"paths":      paths,
		"components": object{"schemas": components(k)},
	}
	if set.token != "" {
		doc["components"].(object)["securitySchemes"] = object{"bearer": object{"type": "http", "scheme": "bearer"}} //nolint:forcetypeassert // built two lines above
		doc["security"] = []object{{"bearer": []string{}}}
	}
	return wire.Marshal(doc)
}

func operation(r route) object {
	content := func(schema object) object {
		return object{"application/json": object{"schema": schema}}
	}
	responses := object{"200": object{"description": "Success", "content": content(r.answer)}}
	texts := map[string]string{
		"400": "No such task", "404": "Unknown environment", "422": "Invalid request", "500": "The environment failed",
		"501": "Not supported by this environment", "503": "Server is full or shutting down",
	}
	for _, status := range r.errors {
		responses[status] = object{"description": texts[status], "content": content(ref("Error"))}
	}
	op := object{"tags": []string{r.tag}, "summary": r.summary, "responses": responses}
	if r.body != nil {
		op["requestBody"] = object{"required": r.path != "/reset", "content": content(r.body)}
	}
	if r.params != nil {
		var params []object
		for _, name := range r.params {
			params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		op["parameters"] = params
	}
	return op
}

func components(k *kind) object {
	text, nullable := object{"type": "string"}, object{"type": []string{"string", "null"}}
	return object{
		"Action": k.schemas.action, "Observation": k.schemas.observation, "ResetObservation": k.schemas.reset, "State": k.schemas.state,
		"Health": object{"type": "object", "properties": object{"status": text}, "required": []string{"status"}},
		"Metadata": object{"type": "object", "required": []string{"name", "description"}, "properties": object{
			"name": text, "description": text, "version": nullable, "author": nullable, "readme_content": nullable, "documentation_url": nullable,
		}},
		"ResetRequest": object{"type": "object", "additionalProperties": true, "properties": object{
			"seed":       object{"type": []string{"integer", "null"}, "minimum": 0, "description": "Random seed for reproducible episodes"},
			"episode_id": object{"type": []string{"string", "null"}, "maxLength": 255, "description": "Name of the episode"},
		}},
		"StepRequest": object{"type": "object", "required": []string{"action"}, "additionalProperties": true, "properties": object{"action": ref("Action")}},
		"Result": object{"type": "object", "required": []string{"observation", "reward", "done"}, "properties": object{
			"observation": anyObject(), "reward": object{"type": []string{"number", "null"}}, "done": object{"type": "boolean"},
			"metadata": object{"type": []string{"object", "null"}},
		}},
		"JsonRpcRequest": object{"type": "object", "required": []string{"jsonrpc", "method"}, "properties": object{
			"jsonrpc": object{"const": "2.0"}, "method": text, "params": anyObject(), "id": object{"type": []string{"string", "integer", "null"}},
		}},
		"Error": object{"type": "object", "required": []string{"detail"}, "properties": object{"detail": object{}}},
	}
}
