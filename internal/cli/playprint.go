package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openenv-go/openenv"
)

// playPrinter shows what the lines of play lead to. Its errors are those of the
// output.
type playPrinter interface {
	result(op string, res openenv.StepResult[openenv.Object]) error
	state(state openenv.Object) error
	failure(op string, f failure) error
	help() error
}

// compact encodes what was decoded from JSON, as one line.
func compact(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage(fmt.Sprintf("%q", err.Error()))
	}
	return bytes.TrimSpace(b.Bytes())
}

// jsonPrinter prints one object a line, for programs.
type jsonPrinter struct{ streams *Streams }

func (p *jsonPrinter) print(v any) error {
	_, err := p.streams.Out.Write(append(compact(v), '\n'))
	return err
}

func (p *jsonPrinter) result(op string, res openenv.StepResult[openenv.Object]) error {
	return p.print(struct {
		Op          string         `json:"op"`
		Observation openenv.Object `json:"observation"`
		Reward      *float64       `json:"reward"`
		Done        bool           `json:"done"`
		Metadata    openenv.Object `json:"metadata"`
	}{op, res.Observation, res.Reward, res.Done, res.Metadata})
}

func (p *jsonPrinter) state(state openenv.Object) error {
	return p.print(struct {
		Op    string         `json:"op"`
		State openenv.Object `json:"state"`
	}{opState, state})
}

func (p *jsonPrinter) failure(op string, f failure) error {
	return p.print(struct {
		Op    string  `json:"op"`
		Error failure `json:"error"`
	}{op, f})
}

func (p *jsonPrinter) help() error {
	var lines []string
	for _, row := range accepted {
		lines = append(lines, row[0])
	}
	return p.print(struct {
		Op      string   `json:"op"`
		Accepts []string `json:"accepts"`
	}{opHelp, lines})
}

// textPrinter prints for people.
type textPrinter struct{ streams *Streams }

func (p *textPrinter) print(lines ...string) error {
	_, err := fmt.Fprintln(p.streams.Out, strings.Join(lines, "\n"))
	return err
}

const playLabel = 13

func (p *textPrinter) label(name, value string) string {
	return p.streams.paint(dim, fmt.Sprintf("%-*s", playLabel, name)) + value
}

// value prints small values in the line and large ones below it, indented. JSON
// encoding has escaped what could steer the terminal.
func (p *textPrinter) value(name string, v any) string {
	text := compact(v)
	if playLabel+len(text) <= p.streams.width() {
		return p.label(name, string(text))
	}
	var indented bytes.Buffer
	if json.Indent(&indented, text, "  ", "  ") != nil {
		return p.label(name, string(text))
	}
	return p.label(name, "") + "\n  " + indented.String()
}

func (p *textPrinter) result(_ string, res openenv.StepResult[openenv.Object]) error {
	lines := []string{p.value("observation", res.Observation)}
	if res.Reward != nil {
		lines = append(lines, p.label("reward", p.streams.paint(green, string(compact(*res.Reward)))))
	}
	if len(res.Metadata) > 0 {
		lines = append(lines, p.value("metadata", res.Metadata))
	}
	if res.Done {
		lines = append(lines, p.label("done", p.streams.paint(bold, "the episode has ended, reset starts another")))
	}
	return p.print(lines...)
}

func (p *textPrinter) state(state openenv.Object) error { return p.print(p.value("state", state)) }

func (p *textPrinter) failure(_ string, f failure) error {
	lines := []string{p.streams.paint(red, oneLine(f.Code)) + " " + oneLine(f.Message)}
	for _, field := range f.Fields {
		where := field.where()
		if where == "" {
			where = "the action"
		}
		lines = append(lines, fmt.Sprintf("  %s: %s (%s)", p.streams.paint(bold, where), oneLine(field.Msg), oneLine(field.Type)))
	}
	if len(f.Details) > 0 {
		lines = append(lines, "  "+string(f.Details))
	}
	if f.Hint != "" {
		lines = append(lines, "  "+f.Hint)
	}
	return p.print(lines...)
}

func (p *textPrinter) help() error {
	var lines []string
	for _, row := range accepted {
		lines = append(lines, fmt.Sprintf("  %s  %s", p.streams.paint(bold, fmt.Sprintf("%-19s", row[0])), row[1]))
	}
	return p.print(lines...)
}
