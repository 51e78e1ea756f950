package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/openenv-go/openenv/rollout/record"
)

// Divergence is the first place where an episode differs from what it was.
type Divergence struct {
	Episode int `json:"episode"`
	// Step is 0 for the reset, and then the step's number.
	Step int `json:"step"`
	// Path is observation, reward, done or error, and where in it: observation.map[2].
	Path string `json:"path"`
	Want string `json:"want"` // JSON; of an error its code and message
	Got  string `json:"got"`
}

// String is "episode 3, step 7: observation.n is 5, was 4".
func (d *Divergence) String() string {
	return fmt.Sprintf("episode %d, step %d: %s is %s, was %s", d.Episode, d.Step, d.Path, d.Got, d.Want)
}

// absent stands for what is not there.
const absent = "(absent)"

// shown is as much of a value as a report has.
func shown(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const enough = 200
	if len(text) > enough {
		return string(bytes.ToValidUTF8(text[:enough], nil)) + "…"
	}
	return string(text)
}

// diffResults compares two observation frames' data; nil says that they are the same.
// Metadata beside the observation is not compared: servers put clocks there.
func diffResults(want, got record.Result) *Divergence {
	if path, w, g, ok := diffJSON("observation", decode(want.Observation), decode(got.Observation)); !ok {
		return &Divergence{Path: path, Want: w, Got: g}
	}
	if w, g := number(want.Reward), number(got.Reward); w != g {
		return &Divergence{Path: "reward", Want: w, Got: g}
	}
	if want.Done != got.Done {
		return &Divergence{Path: "done", Want: strconv.FormatBool(want.Done), Got: strconv.FormatBool(got.Done)}
	}
	return nil
}

func number(v *float64) string {
	if v == nil {
		return "null"
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// decode keeps every digit of a number.
func decode(raw []byte) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return string(raw)
	}
	return v
}

// sameJSON reports that two texts are the same JSON value: the order of keys, space and
// the writing of a number make no difference.
func sameJSON(a, b []byte) bool {
	where, _, _, same := diffJSON("value", decode(a), decode(b))
	return same && where == ""
}

// diffJSON finds the first difference, in the order of the keys.
func diffJSON(path string, want, got any) (where, w, g string, same bool) {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if ok {
			return diffObjects(path, want, got)
		}
	case []any:
		got, ok := got.([]any)
		if ok {
			return diffLists(path, want, got)
		}
	case json.Number:
		got, ok := got.(json.Number)
		if ok && sameNumber(want.String(), got.String()) {
			return "", "", "", true
		}
	default:
		if want == got {
			return "", "", "", true
		}
	}
	return path, shown(want), shown(got), false
}

func diffObjects(path string, want, got map[string]any) (where, w, g string, same bool) {
	keys := slices.Collect(maps.Keys(want))
	for key := range got {
		if _, ok := want[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		at := path + "." + key
		was, had := want[key]
		is, has := got[key]
		switch {
		case !had:
			return at, absent, shown(is), false
		case !has:
			return at, shown(was), absent, false
		}
		if where, w, g, same = diffJSON(at, was, is); !same {
			return where, w, g, false
		}
	}
	return "", "", "", true
}

func diffLists(path string, want, got []any) (where, w, g string, same bool) {
	for i := range max(len(want), len(got)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(want):
			return at, absent, shown(got[i]), false
		case i >= len(got):
			return at, shown(want[i]), absent, false
		}
		if where, w, g, same = diffJSON(at, want[i], got[i]); !same {
			return where, w, g, false
		}
	}
	return "", "", "", true
}

// longestNumber keeps a number like 1e999999999 from being computed.
const longestNumber = 64

// sameNumber compares values: 1.0 is 1.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if len(a) > longestNumber || len(b) > longestNumber {
		return false
	}
	x, _, errX := big.ParseFloat(a, 10, 256, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, 256, big.ToNearestEven)
	return errX == nil && errY == nil && x.Cmp(y) == 0
}
