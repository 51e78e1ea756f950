package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/openenv-go/openenv"
	"github.com/openenv-go/openenv/provider"
)

func TestExitCodes(t *testing.T) {
	refused := &openenv.ConnectError{Op: "connect", Err: errors.New("refused")}
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, exitOK},
		{"anything", errors.New("x"), exitFailure},
		{"server error", &openenv.ServerError{Code: openenv.CodeValidation}, exitFailure},
		{"no environment", &openenv.ServerError{Code: openenv.CodeFactory}, exitFailure},
		{"bad reply", &openenv.DecodeError{Err: errors.New("x")}, exitFailure},
		{"usage", usagef("x"), exitUsage},
		{"bad line", badLine("x"), exitUsage},
		{"refused", refused, exitUnreachable},
		{"capacity", &openenv.ServerError{Code: openenv.CodeCapacityReached}, exitCapacity},
		{"capacity, joined", errors.Join(&openenv.ServerError{Code: openenv.CodeCapacityReached}, refused), exitCapacity},
		{"lost", &openenv.SessionLostError{Cause: errors.New("x")}, exitLost},
		{"lost with the connection", &openenv.SessionLostError{Cause: refused}, exitLost},
		{"no reply", fmt.Errorf("x: %w", openenv.ErrMessageTimeout), exitLost},
		{"no answer in time", &openenv.ConnectError{Err: context.DeadlineExceeded}, exitLost},
		{"interrupted", fmt.Errorf("x: %w", errInterrupted), exitInterrupted},
		{"no environment in time", notReady(context.DeadlineExceeded), exitUnreachable},
		{"an option of an environment", notReady(&provider.ConfigError{Setting: "WithVolume", Err: errors.New("x")}), exitUsage},
		{"an environment that ended", ended(&provider.ExitError{Code: 5}), exitFailure},
		{"second Ctrl-C", &signalError{sig: os.Interrupt}, exitInterrupted},
		{"second SIGTERM", &signalError{sig: syscall.SIGTERM}, exitTerminated},
		{"lines", &linesError{failed: 1, err: refused}, exitUnreachable},
	} {
		if got := codeOf(tt.err); got != tt.want {
			t.Errorf("%s: exit code %d, want %d", tt.name, got, tt.want)
		}
	}
	documented := newExitCodes().Long
	for _, row := range exitCodes {
		if line := fmt.Sprintf("%3d  %s\n", row.code, row.meaning); !strings.Contains(documented, line) {
			t.Errorf("the help topic lacks %q", line)
		}
	}
}

func TestParseLine(t *testing.T) {
	const nothing = "\x00"
	for _, tt := range []struct {
		line, op, data, err string
	}{
		{line: " state ", op: opState},
		{line: "help", op: opHelp},
		{line: "quit", op: opQuit},
		{line: `{"n": 12345678901234567890, "f": 1.50}`, op: opStep, data: `{"f":1.50,"n":12345678901234567890}`},
		{line: `  {}`, op: opStep, data: `{}`},
		{line: "reset", op: opReset, data: `{}`},
		{line: "reset\tseed=3", op: opReset, data: `{"seed":3}`},
		{line: `reset a=x b="x y" c={"d": [1, 2]} e=1.50 f=true g=null`, op: opReset, data: `{"a":"x","b":"x y","c":{"d":[1,2]},"e":1.50,"f":true,"g":null}`},
		{line: `reset a= b=1`, op: opReset, data: `{"a":"","b":1}`},
		{line: `reset a=01 b=1x c="x"y d=-`, op: opReset, data: `{"a":"01","b":"1x","c":"\"x\"y","d":"-"}`},
		{line: `reset a=b=c`, op: opReset, data: `{"a":"b=c"}`},

		{line: `{"a": 1} x`, op: opStep, data: nothing, err: "not a JSON object: "},
		{line: `{"a": 1, "a": 2}`, op: opStep, data: nothing, err: "duplicate"},
		{line: "reset seed", op: opReset, err: `key=value, got "seed"`},
		{line: "reset =3", op: opReset, err: `key=value, got "=3"`},
		{line: "reset a=[1, 2", op: opReset, err: `key=value, got "2"`},
		{line: "reset a=1 a=2", op: opReset, err: "a twice"},
		{line: "state x", op: opState, err: `got "x"`},
		{line: "steps", op: opInput, err: `"steps" is not understood`},
		{line: strings.Repeat("x", 100), op: opInput, err: strings.Repeat("x", 39) + "…"},
	} {
		req, err := parseLine(tt.line)
		if req.op != tt.op {
			t.Errorf("%s: op %q, want %q", tt.line, req.op, tt.op)
		}
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || !isA[*lineError](err) {
				t.Errorf("%s: error %v, want one with %q", tt.line, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		if got := sent(t, req); got != tt.data {
			t.Errorf("%s: data %s, want %s", tt.line, got, tt.data)
		}
	}
}

// sent is what a request would put on the wire.
func sent(t *testing.T, req request) string {
	t.Helper()
	switch req.op {
	case opStep:
		return string(compact(req.action))
	case opReset:
		data := openenv.Object{}
		for _, p := range req.params {
			data[p.key] = p.value
		}
		return string(compact(data))
	}
	return ""
}

func FuzzParseLine(f *testing.F) {
	for _, line := range []string{"state", "reset a=1", `reset a={"b": 1} c`, `{"a": [1]}`, "reset a", "x"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.TrimSpace(line) == "" {
			return
		}
		if req, err := parseLine(line); err == nil && req.op == opInput {
			t.Error("understood as nothing")
		}
	})
}

func TestDescribe(t *testing.T) {
	server := &openenv.ServerError{Code: openenv.CodeValidation, Message: "Invalid message", Details: openenv.Object{
		"errors": []any{map[string]any{"loc": []any{"path", json.Number("0"), "x"}, "type": "missing", "msg": "Field required", "input": nil}},
		"extra":  json.Number("1"),
	}}
	got := string(compact(describe(opStep, fmt.Errorf("step: %w", server))))
	want := `{"code":"VALIDATION_ERROR","message":"Invalid message","fields":[{"loc":["path",0,"x"],"type":"missing","msg":"Field required"}],"details":{"extra":1}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := describe(opStep, server).Fields[0].where(); got != "path.0.x" {
		t.Errorf("location %q", got)
	}

	for _, tt := range []struct {
		op         string
		err        error
		code, hint string
	}{
		{opStep, &openenv.SessionLostError{Cause: server}, failedLost, resetHint},
		{opStep, errInterrupted, failedInterrupted, resetHint},
		{opState, errInterrupted, failedInterrupted, ""},
		{opReset, fmt.Errorf("x: %w", openenv.ErrMessageTimeout), failedTimeout, resetHint},
		{opReset, &openenv.ConnectError{Err: errors.New("x")}, failedUnreachable, ""},
		{opStep, &openenv.DecodeError{Err: errors.New("x")}, failedBadReply, ""},
		{opInput, badLine("x"), failedBadLine, ""},
		{opStep, errors.New("a\nb\x1b"), failedOther, ""},
	} {
		f := describe(tt.op, tt.err)
		if f.Code != tt.code || f.Hint != tt.hint || oneLine(f.Message) != f.Message {
			t.Errorf("%v: %+v, want code %s and hint %q", tt.err, f, tt.code, tt.hint)
		}
		if !strings.Contains(failureCodes, f.Code+" ") {
			t.Errorf("the help of play lacks %s", f.Code)
		}
	}
}

func TestDescribeBuild(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, tt := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{GoVersion: "go1.26.8"}, "(devel) (go1.26.8)"},
		{debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3 (go1.26.8)"},
		{
			debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{setting("vcs.revision", "0123456789abcdef"), setting("vcs.modified", "false")}},
			"v1.2.3 (commit 0123456789ab, go1.26.8)",
		},
		{
			debug.BuildInfo{GoVersion: "go1.26.8", Settings: []debug.BuildSetting{setting("vcs.revision", "0123456789abcdef"), setting("vcs.modified", "true")}},
			"(devel) (commit 0123456789ab, modified, go1.26.8)",
		},
	} {
		if got := describeBuild(&tt.info); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// Every command that can be run says how.
func TestHelp(t *testing.T) {
	for _, cmd := range newRoot(&Streams{}).Commands() {
		if cmd.Runnable() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.Name())
		}
	}
}
