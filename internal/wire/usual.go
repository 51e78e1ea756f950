package wire

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json"
)

// The parts of an observation frame as the peer's serializer and ours spell them, when
// there is no metadata beside the reward.
var (
	usualStart  = []byte(`{"type":"observation","data":{"observation":`)
	usualReward = []byte(`,"reward":`)
	usualEnds   = []struct {
		done bool
		text []byte
	}{{false, []byte(`,"done":false}}`)}, {true, []byte(`,"done":true}}`)}}
)

// longestReward is more than a float64 has.
const longestReward = 32

// decodeUsual decodes a frame of the usual spelling without a look at its envelope,
// which costs as much as a small observation. What lies between the known beginning and
// end is the observation if, and only if, it is one JSON value; all else is left to the
// other way, and so are mistakes, which it can tell of.
func decodeUsual[O any](b []byte, n Numbers) (o Observation[O], ok bool) {
	body, ok := bytes.CutPrefix(b, usualStart)
	if !ok || len(body) == 0 || body[0] != '{' {
		return o, false
	}
	for _, end := range usualEnds {
		if body, ok = bytes.CutSuffix(body, end.text); ok {
			o.Done = end.done
			break
		}
	}
	if !ok {
		return o, false
	}
	last := body[max(0, len(body)-longestReward-len(usualReward)):]
	at := bytes.LastIndex(last, usualReward)
	if at < 0 {
		return o, false
	}
	value := last[at+len(usualReward):]
	if o.Reward, ok = usualNumber(value); !ok {
		return o, false
	}
	body = body[:len(body)-len(value)-len(usualReward)]
	return o, json.Unmarshal(body, &o.Observation, n.options()) == nil
}

// usualNumber reads null, or a number in digits with an optional fraction.
func usualNumber(b []byte) (value *float64, ok bool) {
	if string(b) == "null" {
		return nil, true
	}
	digits := bytes.TrimPrefix(b, []byte("-"))
	whole, fraction, dotted := bytes.Cut(digits, []byte("."))
	if !onlyDigits(whole) || whole[0] == '0' && len(whole) > 1 || dotted && !onlyDigits(fraction) {
		return nil, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return &f, err == nil
}

func onlyDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}
