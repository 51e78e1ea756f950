package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
)

// bound reads a number of a schema.
func bound(s map[string]any, key string) (float64, bool) {
	switch v := s[key].(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case float64:
		return v, true
	}
	return 0, false
}

// span is the range of a number. open says which ends are excluded.
func span(s map[string]any) (low, high float64, openLow, openHigh bool, err error) {
	low, hasLow := bound(s, "minimum")
	if v, ok := bound(s, "exclusiveMinimum"); ok && (!hasLow || v >= low) {
		low, hasLow, openLow = v, true, true
	}
	high, hasHigh := bound(s, "maximum")
	if v, ok := bound(s, "exclusiveMaximum"); ok && (!hasHigh || v <= high) {
		high, hasHigh, openHigh = v, true, true
	}
	switch {
	case !hasLow && !hasHigh:
		low, high = -unbounded, unbounded
	case !hasLow:
		low = min(-unbounded, high-unbounded)
	case !hasHigh:
		high = max(unbounded, low+unbounded)
	}
	if low > high || low == high && (openLow || openHigh) {
		return 0, 0, false, false, fmt.Errorf("no number is between %v and %v", low, high)
	}
	return low, high, openLow, openHigh, nil
}

func (d *draw) integer(s map[string]any) (any, error) {
	low, high, openLow, openHigh, err := span(s)
	if err != nil {
		return nil, err
	}
	step := 1.0
	if m, ok := bound(s, "multipleOf"); ok && m > 0 {
		step = m
		for range 6 { // the least multiple that is whole, of 0.5 say
			if step == math.Trunc(step) {
				break
			}
			step *= 10
		}
	}
	const exact = 1 << 53 // beyond, not every integer is a float64
	first, last := math.Ceil(max(low, -exact)/step), math.Floor(min(high, exact)/step)
	if openLow && first*step == low {
		first++
	}
	if openHigh && last*step == high {
		last--
	}
	if first > last {
		return nil, fmt.Errorf("no multiple of %v is between %v and %v", step, low, high)
	}
	return int64(first+float64(d.rng.Int64N(int64(last-first)+1))) * int64(step), nil
}

func (d *draw) number(s map[string]any) (any, error) {
	low, high, openLow, openHigh, err := span(s)
	if err != nil {
		return nil, err
	}
	if step, ok := bound(s, "multipleOf"); ok && step > 0 {
		first, last := math.Ceil(low/step), math.Floor(high/step)
		if first > last {
			return nil, fmt.Errorf("no multiple of %v is between %v and %v", step, low, high)
		}
		return (first + math.Floor(d.rng.Float64()*(last-first+1))) * step, nil
	}
	part := d.rng.Float64()
	v := low*(1-part) + high*part // high-low may be more than there is
	if openLow && v <= low || openHigh && v >= high {
		v = low/2 + high/2
	}
	return v, nil
}

// count chooses how many there are of something, between two keys of a schema: at most
// more than the least, since there may be no end to it.
func (d *draw) count(s map[string]any, least, most string, more int) (int, error) {
	low, _ := bound(s, least)
	low = max(low, 0)
	if !(low <= mostLetters) {
		return 0, fmt.Errorf("%s %v: %w", least, low, errEndless)
	}
	high := low + float64(more)
	if limit, ok := bound(s, most); ok {
		high = min(high, limit)
	}
	if high < low {
		return 0, fmt.Errorf("%s is above %s", least, most)
	}
	return int(low) + d.rng.IntN(int(high)-int(low)+1), nil
}

const alphabet = "abcdefghijklmnopqrstuvwxyz"

func (d *draw) letters(low, high int) string {
	var b strings.Builder
	for range low + d.rng.IntN(high-low+1) {
		b.WriteByte(alphabet[d.rng.IntN(len(alphabet))])
	}
	return b.String()
}

func (d *draw) text(s map[string]any) (any, error) {
	if pattern, ok := s["pattern"].(string); ok {
		return d.matching(pattern)
	}
	switch format, _ := s["format"].(string); format {
	case "date-time":
		return d.moment().Format(time.RFC3339), nil
	case "date":
		return d.moment().Format(time.DateOnly), nil
	case "time":
		return d.moment().Format("15:04:05Z"), nil
	case "uuid":
		return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", d.rng.Uint32(), d.rng.IntN(1<<16), d.rng.IntN(1<<12), d.rng.IntN(1<<12), d.rng.Int64N(1<<48)), nil
	case "email":
		return d.letters(3, 8) + "@example.org", nil
	case "uri", "url":
		return "https://example.org/" + d.letters(1, 8), nil
	case "ipv4":
		return fmt.Sprintf("192.0.2.%d", d.rng.IntN(256)), nil
	}
	n, err := d.count(s, "minLength", "maxLength", 12)
	return d.letters(n, n), err
}

func (d *draw) moment() time.Time { return time.Unix(d.rng.Int64N(1<<31), 0).UTC() }

// matching makes a text that a pattern allows. Patterns of JSON Schema are nearly
// those of Go; what Go has not is an error.
func (d *draw) matching(pattern string) (string, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", fmt.Errorf("pattern %q: %w", pattern, err)
	}
	var b strings.Builder
	d.match(&b, re.Simplify())
	return b.String(), nil
}

// repeats is how many more than the least there are of what may be repeated.
const repeats = 4

func (d *draw) match(b *strings.Builder, re *syntax.Regexp) {
	again := func(low, high int) {
		if high < 0 || high > low+repeats {
			high = low + repeats
		}
		for range low + d.rng.IntN(high-low+1) {
			d.match(b, re.Sub[0])
		}
	}
	switch re.Op { //nolint:exhaustive // the rest matches without a letter
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		b.WriteRune(d.letterOf(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteString(d.letters(1, 1))
	case syntax.OpStar:
		again(0, -1)
	case syntax.OpPlus:
		again(1, -1)
	case syntax.OpQuest:
		again(0, 1)
	case syntax.OpRepeat:
		again(re.Min, re.Max)
	case syntax.OpAlternate:
		d.match(b, re.Sub[d.rng.IntN(len(re.Sub))])
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			d.match(b, sub)
		}
	}
}

// letterOf chooses from ranges of letters, printable ones where there are some.
func (d *draw) letterOf(ranges []rune) rune {
	var printable []rune
	for i := 0; i+1 < len(ranges); i += 2 {
		if low, high := max(ranges[i], ' '), min(ranges[i+1], '~'); low <= high {
			printable = append(printable, low, high)
		}
	}
	if len(printable) > 0 {
		ranges = printable
	}
	if len(ranges) == 0 {
		return '?'
	}
	total := 0
	for i := 0; i+1 < len(ranges); i += 2 {
		total += int(ranges[i+1]-ranges[i]) + 1
	}
	n := d.rng.IntN(total)
	for i := 0; i+1 < len(ranges); i += 2 {
		size := int(ranges[i+1]-ranges[i]) + 1
		if n < size {
			return ranges[i] + rune(n)
		}
		n -= size
	}
	return ranges[0]
}

func (d *draw) list(s map[string]any, depth int) (any, error) {
	more := 3
	if depth >= deepest {
		more = 0
	}
	first, _ := s["prefixItems"].([]any)
	items, hasItems := s["items"]
	n, err := d.count(s, "minItems", "maxItems", more)
	if err != nil {
		return nil, err
	}
	if _, bounded := s["minItems"]; !bounded && len(first) > 0 {
		n = max(n, len(first))
	}
	if hasItems && items == false {
		n = min(n, len(first))
	}
	unique, _ := s["uniqueItems"].(bool)
	list := []any{} // of n, if the budget allows it
	for i := range n {
		var item any = true
		switch {
		case i < len(first):
			item = first[i]
		case hasItems:
			item = items
		}
		v, err := d.item(item, list, unique, depth)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// item makes an item that the list does not have yet, if it can be found soon: the
// validator has the last word.
func (d *draw) item(schema any, list []any, unique bool, depth int) (v any, err error) {
	for range repeats * repeats {
		v, err = d.value(schema, depth+1)
		if err != nil || !unique || !slices.ContainsFunc(list, func(o any) bool { return fmt.Sprint(o) == fmt.Sprint(v) }) {
			break
		}
	}
	return v, err
}

func (d *draw) members(s map[string]any, depth int) (any, error) {
	out := map[string]any{}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		must := slices.Contains(required, any(name))
		own := depth == 0 && name == "metadata"
		if !must && (own || depth >= deepest || d.rng.IntN(2) == 0) {
			continue
		}
		v, err := d.value(properties[name], depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = v
	}
	additional, extra := s["additionalProperties"]
	_, typed := additional.(map[string]any)
	for _, name := range required {
		if text, ok := name.(string); ok && properties[text] == nil {
			if !typed {
				additional = true
			}
			v, err := d.value(additional, depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", text, err)
			}
			out[text] = v
		}
	}
	if !extra || !typed || depth >= deepest {
		return out, nil
	}
	n, err := d.count(s, "minProperties", "maxProperties", 2)
	if err != nil {
		return nil, err
	}
	for range n {
		v, err := d.value(additional, depth+1)
		if err != nil {
			return nil, err
		}
		out[d.letters(1, 8)] = v
	}
	return out, nil
}
