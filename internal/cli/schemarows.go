package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Limits on the table: what a server sends may describe itself without end.
const (
	maxDepth  = 12
	maxRows   = 500
	maxVisits = 20_000 // of nodes: references can make few of them look like many
)

// printSchema writes one schema as a table of fields. One that is too strange for a
// table is printed as it came.
func printSchema(w *bytes.Buffer, s *Streams, raw json.RawMessage) {
	parsed, err := parseSchema(raw)
	if err != nil {
		fmt.Fprintf(w, "  this cannot be shown as a table:\n  %s\n", oneLine(string(raw)))
		return
	}
	v := &schemaView{
		schema: parsed,
		table:  table{header: []string{"FIELD", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"}, limits: []int{40, 32, 8, 20, 0}},
	}
	root, _ := parsed.follow(parsed.root)
	if root == nil {
		root = parsed.root
	}
	v.expand("", root, 0)
	if len(v.table.rows) == 0 {
		fmt.Fprintf(w, "  %s, no fields described\n", v.typeText(root, 0))
		return
	}
	v.table.print(w, s.width(), func(text string) string { return s.paint(dim, text) })
	if v.cut {
		fmt.Fprintln(w, "  … and more: --json prints all of it")
	}
}

// schemaView turns a schema into rows.
type schemaView struct {
	schema *schema
	table  table
	open   []*schemaNode // the objects around the row being made: a circle ends there
	visits int
	cut    bool
}

// spend reports whether another node may be visited.
func (v *schemaView) spend() bool {
	v.visits++
	v.cut = v.cut || v.visits > maxVisits
	return v.visits <= maxVisits
}

// expand adds the rows of what is inside n.
func (v *schemaView) expand(path string, n *schemaNode, depth int) {
	node, _ := v.schema.follow(n)
	if node == nil || slices.Contains(v.open, node) {
		return
	}
	if depth > maxDepth || !v.spend() {
		v.cut = true
		return
	}
	v.open = append(v.open, node)
	defer func() { v.open = v.open[:len(v.open)-1] }()
	v.fields(path, node, depth)
	for _, part := range node.AllOf {
		v.expand(path, part, depth+1)
	}
	if node.Items != nil {
		v.expand(path+"[]", node.Items, depth+1)
	}
	if node.Additional != nil {
		v.expand(join(path, "*"), node.Additional, depth+1)
	}
	if choice, _ := v.schema.alternatives(node); !slices.Contains(choice, node) {
		v.variants(path, choice, depth)
	}
}

func (v *schemaView) fields(path string, node *schemaNode, depth int) {
	for _, p := range node.Properties {
		if len(v.table.rows) >= maxRows {
			v.cut = true
			return
		}
		name := join(path, oneLine(p.name))
		v.table.add(name, v.typeText(p.node, 0), yes(slices.Contains(node.Required, p.name)), defaultText(p.node), v.notes(p.node))
		v.expand(name, p.node, depth+1)
	}
}

// variants adds the fields of each alternative; where there are several, a row's
// path says whose it is.
func (v *schemaView) variants(path string, choice []*schemaNode, depth int) {
	for _, alternative := range choice {
		at := path
		if len(choice) > 1 {
			at += "<" + v.typeText(alternative, 0) + ">"
		}
		v.expand(at, alternative, depth+1)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// defaultText is empty where null is the default, which the question mark of the
// type says already.
func defaultText(n *schemaNode) string {
	if len(n.Default) == 0 || string(n.Default) == "null" {
		return ""
	}
	return clip(oneLine(string(n.Default)))
}

// typeText names a type: "string", "list of Point", "(integer | string)?".
func (v *schemaView) typeText(n *schemaNode, depth int) string {
	node, name := v.schema.follow(n)
	switch {
	case !v.spend():
		return "any"
	case node == nil && name != "":
		return oneLine(name) + " (not defined)"
	case node == nil || depth > maxDepth:
		return "any"
	case node.never:
		return "nothing"
	case len(node.Const) > 0:
		return oneLine(string(node.Const))
	}
	choice, nullable := v.schema.alternatives(node)
	if len(choice) > 1 || nullable {
		return v.unionText(choice, nullable, depth)
	}
	if !slices.Contains(choice, node) {
		return v.unionText(choice, false, depth)
	}
	if len(node.AllOf) == 1 && len(node.Type) == 0 {
		return v.typeText(node.AllOf[0], depth+1)
	}
	if name != "" && len(node.Properties) > 0 {
		return oneLine(name)
	}
	return v.plainText(node, depth)
}

// unionText joins alternatives; the question mark after them stands for null.
func (v *schemaView) unionText(choice []*schemaNode, nullable bool, depth int) string {
	var texts []string
	for _, node := range choice {
		if text := v.typeText(node, depth+1); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return optional(texts, nullable)
}

func optional(texts []string, nullable bool) string {
	text := strings.Join(texts, " | ")
	switch {
	case text == "" && nullable:
		return "null"
	case text == "":
		return "any"
	case nullable && (len(texts) > 1 || strings.Contains(text, " of ")):
		return "(" + text + ")?"
	case nullable:
		return text + "?"
	}
	return text
}

// plainText is the type of a node without references and alternatives.
func (v *schemaView) plainText(node *schemaNode, depth int) string {
	types := node.Type
	if len(types) == 0 {
		types = impliedType(node)
	}
	var texts []string
	for _, name := range types {
		if name != "null" {
			texts = append(texts, v.oneType(node, name, depth))
		}
	}
	return optional(texts, slices.Contains(types, "null"))
}

// impliedType is for schemas that leave the type to the other keywords.
func impliedType(node *schemaNode) words {
	switch {
	case len(node.Properties) > 0:
		return words{"object"}
	case node.Items != nil || len(node.PrefixItems) > 0:
		return words{"array"}
	case len(node.Enum) > 0:
		return words{"enum"}
	}
	return nil
}

func (v *schemaView) oneType(node *schemaNode, name string, depth int) string {
	switch name {
	case "array":
		return v.listText(node, depth)
	case "object":
		if node.Additional != nil && !node.Additional.never && len(node.Properties) == 0 {
			if text := v.typeText(node.Additional, depth+1); text != "any" {
				return "map of " + text
			}
		}
	case "string":
		if node.Format != "" {
			return "string (" + oneLine(node.Format) + ")"
		}
	}
	return oneLine(name)
}

func (v *schemaView) listText(node *schemaNode, depth int) string {
	if len(node.PrefixItems) > 0 {
		var texts []string
		for _, item := range node.PrefixItems {
			texts = append(texts, v.typeText(item, depth+1))
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	if node.Items == nil {
		return "list"
	}
	text := v.typeText(node.Items, depth+1)
	if strings.Contains(text, " | ") && !strings.HasPrefix(text, "(") {
		text = "(" + text + ")"
	}
	return "list of " + text
}

// notes is the last column: what the author says, and what the value must satisfy.
func (v *schemaView) notes(n *schemaNode) string {
	text := n.Description
	if text == "" {
		if node, _ := v.schema.follow(n); node != nil {
			text = firstParagraph(node.Description)
		}
	}
	text = oneLine(text)
	if rules := v.rules(n, 0); len(rules) > 0 {
		text += " [" + strings.Join(rules, "; ") + "]"
	}
	return strings.TrimSpace(text)
}

func firstParagraph(text string) string {
	first, _, _ := strings.Cut(text, "\n\n")
	return first
}

// rules lists the constraints of n, of its alternatives and of what it contains;
// what has fields of its own has rows of its own.
func (v *schemaView) rules(n *schemaNode, depth int) []string {
	node, _ := v.schema.follow(n)
	if node == nil || depth > maxDepth || !v.spend() {
		return nil
	}
	rules := ownRules(node)
	more, _ := v.schema.alternatives(node)
	for _, part := range append(more, node.AllOf...) {
		if part == node {
			continue
		}
		for _, rule := range v.rules(part, depth+1) {
			if !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
	}
	for _, part := range []*schemaNode{node.Items, node.Additional} {
		if part == nil {
			continue
		}
		for _, rule := range v.rules(part, depth+1) {
			rules = append(rules, "each "+strings.TrimPrefix(rule, "each "))
		}
	}
	return rules
}

func ownRules(node *schemaNode) []string {
	var rules []string
	if len(node.Enum) > 0 {
		var values []string
		for _, value := range node.Enum {
			values = append(values, oneLine(string(value)))
		}
		rules = append(rules, "one of "+strings.Join(values, ", "))
	}
	for _, bound := range []struct {
		sign  string
		limit json.Number
	}{{">=", node.Minimum}, {">", node.ExclusiveMinimum}, {"<=", node.Maximum}, {"<", node.ExclusiveMaximum}, {"multiple of", node.MultipleOf}} {
		if bound.limit != "" {
			rules = append(rules, bound.sign+" "+bound.limit.String())
		}
	}
	rules = append(rules, sizeRule(node.MinLength, node.MaxLength, "characters")...)
	rules = append(rules, sizeRule(node.MinItems, node.MaxItems, "items")...)
	if node.Pattern != "" {
		rules = append(rules, "matches "+oneLine(node.Pattern))
	}
	return rules
}

func sizeRule(low, high *int, what string) []string {
	switch {
	case low != nil && high != nil && *low == *high:
		return []string{fmt.Sprintf("%d %s", *low, what)}
	case low != nil && high != nil:
		return []string{fmt.Sprintf("%d to %d %s", *low, *high, what)}
	case low != nil:
		return []string{fmt.Sprintf("at least %d %s", *low, what)}
	case high != nil:
		return []string{fmt.Sprintf("at most %d %s", *high, what)}
	}
	return nil
}
