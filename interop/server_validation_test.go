package interop

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
	"github.com/openenv-go/openenv/internal/leak"
	"github.com/openenv-go/openenv/internal/peerproc"
	"github.com/openenv-go/openenv/openenvtest"
)

// The action of the peer's environment "rich" (peer/server.py), field by field.
type (
	richMove  string
	richCode  string
	richPoint struct {
		X     int     `json:"x"`
		Label *string `json:"label,omitempty"`
	}
	richAction struct {
		Text     string         `json:"text"`
		Count    int            `json:"count"`
		Ratio    float64        `json:"ratio"`
		Flag     bool           `json:"flag"`
		Note     *string        `json:"note,omitempty"`
		Limit    *int           `json:"limit,omitempty"`
		Point    *richPoint     `json:"point,omitempty"`
		Points   []richPoint    `json:"points,omitempty"`
		Scores   map[string]int `json:"scores,omitempty"`
		Small    int8           `json:"small,omitzero"`
		Size     uint           `json:"size,omitzero"`
		Move     richMove       `json:"move,omitzero"`
		Tags     []string       `json:"tags,omitempty"`
		Pair     [2]float64     `json:"pair,omitzero"`
		Code     richCode       `json:"code,omitzero"`
		Anything any            `json:"anything,omitempty"`
	}
	richObservation struct {
		Seen richAction `json:"seen"`
	}
	richEnv struct{}
)

func (richEnv) Reset(context.Context, envserver.ResetParams) (openenv.StepResult[richObservation], error) {
	return openenv.StepResult[richObservation]{}, nil
}

func (richEnv) Step(_ context.Context, a richAction) (openenv.StepResult[richObservation], error) {
	return openenv.StepResult[richObservation]{Observation: richObservation{a}}, nil
}

func (richEnv) State(context.Context) (openenv.State, error) { return openenv.State{}, nil }

// required are the members that each row below gets, unless it has them itself.
var required = map[string]string{"text": `"t"`, "count": "1", "ratio": "0.5", "flag": "true"}

// actions are the rows: members of an action. "-name" leaves a required one out.
var actions = []string{
	``,
	`"text":"héllo 😀"`, `"text":5`, `"text":null`, `"text":["a"]`, `"text":{"a":1}`, `"text":true`, `-text`,
	`-text -count -ratio -flag`,
	`"count":0`, `"count":-7`, `"count":7.0`, `"count":7e0`, `"count":7.5`, `"count":"abc"`, `"count":""`, `"count":null`,
	`"count":[]`, `"count":{}`, `"count":1e300`, `"count":9223372036854775807`, `"count":9223372036854775808`,
	`"count":1000000000000000000000000000000`, `"count":"5"`, `"count":true`,
	`"ratio":3`, `"ratio":-2.5e3`, `"ratio":"abc"`, `"ratio":null`, `"ratio":[1]`, `"ratio":"2.5"`, `"ratio":true`, `"ratio":1e400`,
	`"flag":false`, `"flag":null`, `"flag":"maybe"`, `"flag":2`, `"flag":1.5`, `"flag":[]`, `"flag":1`, `"flag":"yes"`,
	`"note":"n"`, `"note":null`, `"note":5`, `"limit":3`, `"limit":null`, `"limit":"x"`, `"limit":2.5`, `"limit":4.0`,
	`"point":{"x":1}`, `"point":{"x":1,"label":"a"}`, `"point":null`, `"point":5`, `"point":[]`, `"point":{}`,
	`"point":{"y":1}`, `"point":{"z":1,"x":"q","a":2,"label":5}`, `"point":{"x":2.0}`,
	`"points":[]`, `"points":[{"x":1},{"x":2}]`, `"points":{}`, `"points":"ab"`, `"points":[5]`,
	`"points":[{"x":1},{"x":null,"label":1,"q":2},{"label":"l"}]`, `"points":[null]`, `"points":null`,
	`"scores":{"a":1}`, `"scores":{}`, `"scores":{"z":1.5,"a":"x","m":1}`, `"scores":[]`, `"scores":null`,
	`"small":127`, `"small":128`, `"small":-129`, `"small":1e3`, `"small":"q"`, `"size":-1`, `"size":0`, `"size":18446744073709551615`,
	`"move":"down"`, `"move":"right"`, `"move":5`, `"move":null`, `"tags":["a","b"]`, `"tags":["a",1,null]`,
	`"pair":[1,2.5]`, `"pair":[1]`, `"pair":[1,2,3]`, `"pair":["x",2,3]`, `"pair":{}`,
	`"code":"abc"`, `"code":"a"`, `"code":"abcd"`, `"code":"bb"`, `"code":7`,
	`"anything":{"deep":[1,"x",null]}`, `"anything":null`,
	`"metadata":{"k":1}`, `"metadata":{}`, `"metadata":5`, `"metadata":null`, `"metadata":[]`,
	`"unknown":1`, `"zz":1,"aa":{"b":2}`, `"Text":"x"`, `"type":"call_tool"`,
	`-count "zz":1,"text":5,"points":[{"x":"q"}],"note":7,"aa":2,"metadata":"m"`,
}

// differences are the rows that the two servers answer differently, and why. What ours
// says is here; "" is an accepted action.
var differences = map[string]struct{ ours, why string }{
	`"count":"5"`:   {intType("count", `"5"`), laxTexts},
	`"ratio":"2.5"`: {`[{"type":"float_type","loc":["ratio"],"msg":"Input should be a valid number","input":"2.5"}]`, laxTexts},
	`"flag":"yes"`:  {boolType(`"yes"`), laxTexts},
	`"count":true`:  {intType("count", `true`), laxBools},
	`"ratio":true`:  {`[{"type":"float_type","loc":["ratio"],"msg":"Input should be a valid number","input":true}]`, laxBools},
	`"flag":1`:      {boolType(`1`), laxBools},
	`"count":9223372036854775808`: {
		`[{"type":"value_error","loc":["count"],"msg":"Value error, value out of range","input":9223372036854775808}]`,
		"a Python integer has no limit; Go's int ends at 2^63-1",
	},
	`"count":1000000000000000000000000000000`: {
		`[{"type":"int_parsing_size","loc":["count"],"msg":"Unable to parse input string as an integer, exceeded maximum size","input":1e+30}]`,
		"a Python integer has no limit; Go's int ends at 2^63-1",
	},
	`"ratio":1e400`: {
		`[{"type":"value_error","loc":["ratio"],"msg":"Value error, value out of range","input":"*"}]`,
		"Python reads infinity, which no JSON can answer with",
	},
	`"points":null`: {``, "null is a nil slice in Go, and what Python clients send for Optional[List]"},
}

const (
	laxTexts = "pydantic takes a text for a number or a boolean; here a value has the kind that the schema says"
	laxBools = "pydantic takes booleans for numbers and 0 and 1 for booleans; here a value has the kind that the schema says"
)

func intType(field, input string) string {
	return `[{"type":"int_type","loc":["` + field + `"],"msg":"Input should be a valid integer","input":` + input + `}]`
}

func boolType(input string) string {
	return `[{"type":"bool_type","loc":["flag"],"msg":"Input should be a valid boolean","input":` + input + `}]`
}

// The published package's server and ours, side by side. A peer takes seconds to start:
// the tests share two.
func TestServerAsThePeer(t *testing.T) {
	leak.Check(t)
	peers := map[openenv.Mode]string{}
	for _, mode := range []openenv.Mode{openenv.ModeSimulation, openenv.ModeProduction} {
		peers[mode] = peerproc.Start(t, "--env", "rich", "--mode", string(mode)).URL()
	}
	t.Run("validation", func(t *testing.T) { testValidation(t, peers[openenv.ModeSimulation]) })
	for mode, url := range peers {
		t.Run("routes in "+string(mode), func(t *testing.T) { testRoutes(t, mode, url) })
	}
}

// The servers say the same of the same action: what they understood, or each of its
// faults, in the same words and order.
func testValidation(t *testing.T, peer string) {
	srv, err := envserver.New(openenv.Spec[richAction, richObservation, openenv.State]{Name: "rich"},
		func(context.Context) (richEnv, error) { return richEnv{}, nil },
		envserver.WithSchema[richMove](`{"type":"string","enum":["up","down","left"]}`),
		envserver.WithSchema[richCode](`{"type":"string","minLength":2,"maxLength":3,"pattern":"^a"}`))
	if err != nil {
		t.Fatal(err)
	}
	ours := dialRaw(t, openenvtest.ServeLoopback(t, srv).URL())
	theirs := dialRaw(t, peer)
	used := map[string]bool{}
	for _, row := range actions {
		t.Run(row, func(t *testing.T) {
			action := composeAction(row)
			got, want := ours.verdict(t, action), theirs.verdict(t, action)
			if d, ok := differences[row]; ok {
				used[row] = true
				if reflect.DeepEqual(got, want) {
					t.Errorf("no difference any more: %s", d.why)
				}
				want = verdict{}
				if d.ours != "" {
					want.errors = decode(t, d.ours)
				}
			}
			if want.errors == nil && got.errors == nil {
				compareSeen(t, action, got.seen, want.seen)
				return
			}
			if !sameErrors(want.errors, got.errors) {
				t.Errorf("%s:\nours   %s\ntheirs %s", action, encode(t, got.errors), encode(t, want.errors))
			}
		})
	}
	for row := range differences {
		if !used[row] {
			t.Errorf("difference %s has no row", row)
		}
	}
}

// composeAction completes a row with the required members.
func composeAction(row string) string {
	members := row
	var parts []string
	for strings.HasPrefix(members, "-") {
		_, members, _ = strings.Cut(members, " ")
	}
	for _, name := range []string{"text", "count", "ratio", "flag"} {
		if !strings.Contains(row, "-"+name) && !strings.Contains(members, `"`+name+`":`) {
			parts = append(parts, `"`+name+`":`+required[name])
		}
	}
	if members != "" {
		parts = append(parts, members)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

type rawSocket struct{ ws *websocket.Conn }

func dialRaw(t *testing.T, url string) rawSocket {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(url, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close(websocket.StatusNormalClosure, "") }) // the server may have left already
	return rawSocket{ws}
}

// verdict is what a server made of an action.
type verdict struct {
	errors any
	seen   map[string]any
}

func (s rawSocket) verdict(t *testing.T, action string) verdict {
	t.Helper()
	if err := s.ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"step","data":`+action+`}`)); err != nil {
		t.Fatal(err)
	}
	_, reply, err := s.ws.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	frame := asObject(decode(t, string(reply)))
	data := asObject(frame["data"])
	if frame["type"] == "observation" {
		return verdict{seen: asObject(asObject(data["observation"])["seen"])}
	}
	errs, ok := data["errors"].([]any)
	if data["code"] != "VALIDATION_ERROR" || data["message"] != "Invalid message" || !ok {
		t.Fatalf("%s: %s", action, reply)
	}
	for _, e := range errs {
		delete(asObject(e), "url") // into the documentation of pydantic
	}
	return verdict{errors: errs}
}

// compareSeen compares what was understood of the members that were sent. The peer's
// answer is absent where it is known to differ.
func compareSeen(t *testing.T, action string, ours, theirs map[string]any) {
	t.Helper()
	sent, ok := decode(t, action).(map[string]any)
	if !ok || theirs == nil {
		return
	}
	for name := range sent {
		if name == "metadata" { // read by ActionMetadata, not a field
			continue
		}
		value, has := ours[name]
		if !has { // a Go zero that is left out
			continue
		}
		if !covers(theirs[name], value) {
			t.Errorf("%s: %s is %v here, %v there", action, name, value, theirs[name])
		}
	}
}

// covers compares decoded values; Go leaves out an optional member that is null there.
func covers(theirs, ours any) bool {
	switch o := ours.(type) {
	case map[string]any:
		th, ok := theirs.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range o {
			if !covers(th[name], value) {
				return false
			}
		}
		return true
	case []any:
		th, ok := theirs.([]any)
		if !ok || len(th) != len(o) {
			return false
		}
		for i := range o {
			if !covers(th[i], o[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(theirs, ours)
}

// sameErrors compares two lists. An input "*" in want is any; the class of a model is
// named by each language in its own way.
func sameErrors(want, got any) bool {
	w, ok1 := want.([]any)
	g, ok2 := got.([]any)
	if !ok1 || !ok2 || len(w) != len(g) {
		return false
	}
	for i := range w {
		we, ok1 := w[i].(map[string]any)
		ge, ok2 := g[i].(map[string]any)
		if !ok1 || !ok2 {
			return false
		}
		if we["input"] == "*" {
			ge["input"] = "*"
		}
		if we["type"] == "model_type" && ge["type"] == "model_type" {
			for _, key := range []string{"msg", "ctx"} {
				text := strings.ReplaceAll(encodeText(ge[key]), "richPoint", "Point")
				if text != encodeText(we[key]) {
					return false
				}
				delete(we, key)
				delete(ge, key)
			}
		}
		if !reflect.DeepEqual(we, ge) {
			return false
		}
	}
	return true
}

func asObject(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

func decode(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return plainNumbers(v)
}

// plainNumbers makes float64 of what fits; an action may have numbers that do not.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case map[string]any:
		for name, value := range v {
			v[name] = plainNumbers(value)
		}
	case []any:
		for i, value := range v {
			v[i] = plainNumbers(value)
		}
	}
	return v
}

func encode(t *testing.T, v any) string {
	t.Helper()
	return encodeText(v)
}

func encodeText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
