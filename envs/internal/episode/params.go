package episode

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/envserver"
)

// Params reads the parameters of a reset. A parameter that is absent or null has its
// default; parameters that nobody reads are ignored, since training programs send whole
// rows of a data set along.
type Params struct {
	values openenv.Object
	wrong  []string
}

// Read begins to read p.
func Read(p envserver.ResetParams) *Params { return &Params{values: p.Extra} }

// Int is a whole number from lowest to highest.
func (p *Params) Int(name string, byDefault, lowest, highest int) int {
	v := p.values[name]
	if v == nil {
		return byDefault
	}
	f, ok := number(v)
	switch {
	case !ok || f != math.Trunc(f):
		p.complainf(name, "%s is not a whole number", show(v))
	case f < float64(lowest) || f > float64(highest):
		p.complainf(name, "%s is not between %d and %d", show(v), lowest, highest)
	default:
		return int(f)
	}
	return byDefault
}

// Flag is true or false.
func (p *Params) Flag(name string, byDefault bool) bool {
	v := p.values[name]
	if v == nil {
		return byDefault
	}
	b, ok := v.(bool)
	if !ok {
		p.complainf(name, "%s is neither true nor false", show(v))
		return byDefault
	}
	return b
}

// Choice is one of some words, of which the first is the default.
func (p *Params) Choice(name string, choices ...string) string {
	v := p.values[name]
	if v == nil {
		return choices[0]
	}
	if s, ok := v.(string); ok && slices.Contains(choices, s) {
		return s
	}
	p.complainf(name, "%s is none of %s", show(v), strings.Join(choices, ", "))
	return choices[0]
}

// Err names every parameter that could not be read, or is nil.
func (p *Params) Err() error {
	if p.wrong == nil {
		return nil
	}
	return errors.New(strings.Join(p.wrong, "; "))
}

func (p *Params) complainf(name, format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf("reset parameter %q: ", name)+fmt.Sprintf(format, args...))
}

// OneOf returns an error when a field of an action is none of its choices: a schema
// made from a Go string allows any.
func OneOf(field, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return fmt.Errorf("%s %s is none of %s", field, show(value), strings.Join(choices, ", "))
}

// number takes what a decoder makes of a JSON number, and an int for callers in Go.
func number(v any) (f float64, ok bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	case interface{ Float64() (float64, error) }: // json.Number
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// longest is how much of a wrong value an error repeats.
const longest = 40

func show(v any) string {
	text := fmt.Sprint(v)
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	if _, ok := v.(string); ok {
		return fmt.Sprintf("%q", text)
	}
	return text
}
