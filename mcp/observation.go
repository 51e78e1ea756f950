package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/openenv-go/openenv"
)

// The members of an observation that mean something to this package.
const (
	memberTools    = "tools"
	memberToolName = "tool_name"
	memberResult   = "result"
	memberError    = "error"
	memberMetadata = "metadata"
)

var jsonNull = json.RawMessage("null")

// MarshalJSON writes what the peer's observations have: tools for a list; tool_name,
// result and error for a call, null where there is none; and the members of Extra, of
// which the fields' own names are left out.
func (o Observation) MarshalJSON() ([]byte, error) {
	members := make(map[string]any, len(o.Extra)+3)
	maps.Copy(members, o.Extra)
	if o.Tools != nil {
		members[memberTools] = o.Tools
	}
	if o.ToolName != "" {
		members[memberToolName] = o.ToolName
		members[memberResult] = jsonNull
		if o.Result != nil {
			members[memberResult] = o.Result
		}
		members[memberError] = o.Error
	}
	return json.Marshal(members)
}

// UnmarshalJSON reads what a server sent; members that are not a field go to Extra,
// where numbers keep their digits as [json.Number] does. The empty metadata that stands
// in every observation is left out.
func (o *Observation) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("observation: %w", err)
	}
	*o = Observation{}
	for name, value := range members {
		switch name {
		case memberTools:
			o.Tools = value
		case memberResult:
			if !bytes.Equal(value, jsonNull) {
				o.Result = value
			}
		case memberToolName:
			if err := json.Unmarshal(value, &o.ToolName); err != nil {
				return fmt.Errorf("observation: %s: %w", name, err)
			}
		case memberError:
			if err := json.Unmarshal(value, &o.Error); err != nil {
				return fmt.Errorf("observation: %s: %w", name, err)
			}
		case memberMetadata:
			if err := o.keep(name, value); err != nil {
				return err
			}
			if m, ok := o.Extra[name].(map[string]any); ok && len(m) == 0 {
				delete(o.Extra, name)
			}
		default:
			if err := o.keep(name, value); err != nil {
				return err
			}
		}
	}
	if len(o.Extra) == 0 {
		o.Extra = nil
	}
	return nil
}

// keep puts a member into Extra.
func (o *Observation) keep(name string, value json.RawMessage) error {
	var extra any
	if err := decodeNumbers(value, &extra); err != nil {
		return fmt.Errorf("observation: %s: %w", name, err)
	}
	if o.Extra == nil {
		o.Extra = make(openenv.Object)
	}
	o.Extra[name] = extra
	return nil
}

// decodeNumbers decodes JSON so that a number comes out of it with the digits that it
// went in with.
func decodeNumbers(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(into)
}
