package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// schemaNode is the part of a JSON Schema that a reader of a table needs.
type schemaNode struct {
	Ref         string `json:"$ref"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Format      string `json:"format"`
	Type        words  `json:"type"`

	AnyOf []*schemaNode `json:"anyOf"`
	OneOf []*schemaNode `json:"oneOf"`
	AllOf []*schemaNode `json:"allOf"`

	Properties  properties    `json:"properties"`
	Required    []string      `json:"required"`
	Additional  *schemaNode   `json:"additionalProperties"`
	Items       *schemaNode   `json:"items"`
	PrefixItems []*schemaNode `json:"prefixItems"`

	Enum    []json.RawMessage `json:"enum"`
	Const   json.RawMessage   `json:"const"`
	Default json.RawMessage   `json:"default"`

	Minimum          json.Number `json:"minimum"`
	Maximum          json.Number `json:"maximum"`
	ExclusiveMinimum json.Number `json:"exclusiveMinimum"`
	ExclusiveMaximum json.Number `json:"exclusiveMaximum"`
	MultipleOf       json.Number `json:"multipleOf"`
	MinLength        *int        `json:"minLength"`
	MaxLength        *int        `json:"maxLength"`
	MinItems         *int        `json:"minItems"`
	MaxItems         *int        `json:"maxItems"`
	Pattern          string      `json:"pattern"`

	Defs        map[string]*schemaNode `json:"$defs"`
	Definitions map[string]*schemaNode `json:"definitions"` // what $defs was called in older drafts

	never bool // the schema false
}

// UnmarshalJSON accepts true and false, too: anything, and nothing.
func (n *schemaNode) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true":
		return nil
	case "false":
		n.never = true
		return nil
	}
	type bare schemaNode
	return json.Unmarshal(data, (*bare)(n))
}

// words is a string or a list of strings.
type words []string

func (w *words) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*w = make(words, 1)
		return json.Unmarshal(data, &(*w)[0])
	}
	return json.Unmarshal(data, (*[]string)(w))
}

// property is a named part of an object.
type property struct {
	name string
	node *schemaNode
}

// properties keeps the order in which the server lists them, which is the one that
// the environment's author chose.
type properties []property

func (p *properties) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("properties are not an object but %v", open)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		node := &schemaNode{}
		if err := dec.Decode(node); err != nil {
			return err
		}
		*p = append(*p, property{fmt.Sprint(name), node})
	}
	return nil
}

// schema is a document: references in it lead to its own definitions.
type schema struct {
	root *schemaNode
	defs map[string]*schemaNode
}

func parseSchema(raw json.RawMessage) (*schema, error) {
	root := &schemaNode{}
	if err := json.Unmarshal(raw, root); err != nil {
		return nil, err
	}
	s := &schema{root: root, defs: make(map[string]*schemaNode)}
	for name, node := range root.Definitions {
		s.defs["#/definitions/"+name] = node
	}
	for name, node := range root.Defs {
		s.defs["#/$defs/"+name] = node
	}
	return s, nil
}

// escapes undoes what a JSON pointer in a reference does to a name.
var escapes = strings.NewReplacer("~1", "/", "~0", "~")

// follow returns what a chain of references leads to, and the name of the last. It
// is nil where the chain leads nowhere or in a circle.
func (s *schema) follow(n *schemaNode) (target *schemaNode, name string) {
	for hops := 0; n != nil && n.Ref != ""; hops++ {
		if n.Ref == "#" {
			return s.root, s.root.Title
		}
		ref := escapes.Replace(n.Ref)
		name = ref[strings.LastIndexByte(ref, '/')+1:]
		if hops > len(s.defs) {
			return nil, name
		}
		n = s.defs[ref]
	}
	return n, name
}

// alternatives returns what n may be, null left out, and whether it may be null. It
// is n alone when there is no choice.
func (s *schema) alternatives(n *schemaNode) (nodes []*schemaNode, nullable bool) {
	all := append(append([]*schemaNode{}, n.AnyOf...), n.OneOf...)
	if len(all) == 0 {
		return []*schemaNode{n}, false
	}
	for _, node := range all {
		switch {
		case node == nil:
		case len(node.Type) == 1 && node.Type[0] == "null":
			nullable = true
		default:
			nodes = append(nodes, node)
		}
	}
	return nodes, nullable
}
